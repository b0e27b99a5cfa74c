"""The grid is read back from its PNG and its panels are cut out again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from damcha_core.errors import ConfigError, DiskError, ShapeError
from damcha_core.evaluate.picture_grid import (
    HATCH_GREYS,
    GridGeometry,
    PictureRow,
    check_grid_path,
    printable,
    write_picture_grid,
)


def picture_row(channels: int, side: int, *caption: str, seed: int = 0) -> PictureRow:
    rng = torch.Generator().manual_seed(seed)
    original = torch.rand(channels, side, side, generator=rng)
    predicted = torch.rand(channels, side, side, generator=rng) * 1.4 - 0.2
    hidden = torch.rand(1, side, side, generator=rng) < 0.5
    return PictureRow(original, predicted, hidden, caption)


def panels(path: Path, geometry: GridGeometry, row: int) -> list[np.ndarray]:
    """Panels of a row in picture pixels; checks that each pixel is one flat square."""
    cut = []
    with Image.open(path) as image:
        assert (image.mode, image.size) == ("RGB", geometry.size)
        for box in geometry.boxes[row]:
            drawn = np.asarray(image.crop(box))
            assert drawn.shape == (geometry.panel_side, geometry.panel_side, 3)
            cut.append(drawn)
    return cut


def shrunk(drawn: np.ndarray, scale: int) -> np.ndarray:
    small = drawn[::scale, ::scale]
    assert np.array_equal(drawn, small.repeat(scale, axis=0).repeat(scale, axis=1))
    return small


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("side", "scale"), [(8, 0), (32, 0), (8, 1), (8, 5), (128, 0)])
def test_panels_hold_the_pictures(tmp_path: Path, channels: int, side: int, scale: int) -> None:
    rows = [picture_row(channels, side, "a.png", seed=n) for n in range(3)]
    path = tmp_path / "grid.png"
    geometry = write_picture_grid(path, rows, scale=scale)
    assert geometry.scale == (scale or max(1, -(-96 // side)))
    for place, row in enumerate(rows):
        original, masked, restored = panels(path, geometry, place)
        wanted = row.original.expand(3, -1, -1).permute(1, 2, 0).numpy() * 255
        clipped = row.predicted.clamp(0, 1).expand(3, -1, -1).permute(1, 2, 0).numpy() * 255
        hidden = row.hidden[0].numpy()
        small, small_restored = shrunk(original, geometry.scale), shrunk(restored, geometry.scale)
        assert np.abs(small - wanted).max() <= 0.5001
        assert np.array_equal(small_restored[~hidden], small[~hidden])
        assert np.abs(small_restored[hidden] - clipped[hidden]).max() <= 0.5001
        drawn_hidden = hidden.repeat(geometry.scale, axis=0).repeat(geometry.scale, axis=1)
        assert np.array_equal(masked[~drawn_hidden], original[~drawn_hidden])
        assert set(np.unique(masked[drawn_hidden])) == set(HATCH_GREYS)


@pytest.mark.parametrize(
    ("level", "rgb"), [((0, 0, 0), 0), ((1, 1, 1), 0), ((1, 0, 0), 0), ((0,), 0), ((1,), 0)]
)
def test_pure_colours_come_out_right(tmp_path: Path, level: tuple[int, ...], rgb: int) -> None:
    picture = torch.tensor(level).float().view(-1, 1, 1).expand(-1, 8, 8)
    hidden = torch.zeros(8, 8, dtype=torch.bool)
    hidden[:4] = True
    path = tmp_path / "grid.png"
    geometry = write_picture_grid(path, [PictureRow(picture, picture, hidden)])
    original, masked, restored = panels(path, geometry, 0)
    wanted = np.array(level if len(level) == 3 else level * 3) * 255
    assert (original == wanted).all()
    assert (restored == wanted).all()
    assert (masked[geometry.panel_side // 2 :] == wanted).all()


def test_titles_captions_and_legend_are_drawn_outside_the_panels(tmp_path: Path) -> None:
    row = picture_row(3, 8)
    captioned = PictureRow(row.original, row.predicted, row.hidden, ("0001.png", "12.3 dB"))
    path, plain_path = tmp_path / "a.png", tmp_path / "b.png"
    geometry = write_picture_grid(path, [captioned] * 2, note="masked_psnr in dB")
    plain = write_picture_grid(plain_path, [row] * 2)
    assert geometry.boxes == plain.boxes
    assert geometry.size[0] >= plain.size[0]
    assert geometry.size[1] > plain.size[1]
    with Image.open(path) as image:
        grey = np.asarray(image.convert("L"))
    (left, top, right, bottom), last = geometry.boxes[0][0], geometry.boxes[-1][-1]
    for boxed in geometry.boxes[0]:
        assert (grey[:top, boxed[0] : boxed[2]] < 128).any()
    assert (grey[last[3] :] < 128).any()
    for boxes in geometry.boxes:
        assert (grey[boxes[2][1] : boxes[2][3], boxes[2][2] :] < 128).any()
    assert (grey[top:bottom, right : geometry.boxes[0][1][0]] == 255).all()
    assert (grey[top:bottom, :left] == 255).all()


def test_panels_do_not_overlap_and_lie_in_the_picture(tmp_path: Path) -> None:
    geometry = write_picture_grid(tmp_path / "g.png", [picture_row(1, 8)] * 3, scale=2)
    boxes = [box for row in geometry.boxes for box in row]
    assert len(boxes) == 9
    for place, (left, top, right, bottom) in enumerate(boxes):
        assert 0 <= left < right <= geometry.size[0]
        assert 0 <= top < bottom <= geometry.size[1]
        for other in boxes[place + 1 :]:
            assert right <= other[0] or bottom <= other[1] or other[2] <= left


def test_predictions_that_are_not_numbers_are_drawn_black(tmp_path: Path) -> None:
    row = picture_row(1, 8)
    odd = PictureRow(row.original, torch.full((1, 8, 8), float("nan")), torch.ones(8, 8) > 0)
    geometry = write_picture_grid(tmp_path / "g.png", [odd])
    assert (panels(tmp_path / "g.png", geometry, 0)[2] == 0).all()


@pytest.mark.parametrize("name", ["\u4e2d\u6587.png", "a\nb\tc.png", "caf\u00e9.png", "\udce4.png"])
def test_any_file_name_can_be_a_caption(tmp_path: Path, name: str) -> None:
    write_picture_grid(tmp_path / "g.png", [picture_row(1, 8, name, "x" * 500)])
    assert (tmp_path / "g.png").stat().st_size > 0


def test_long_captions_lose_their_middle() -> None:
    assert printable("a" * 30 + "b" * 30) == "a" * 18 + "..." + "b" * 19
    assert printable("caf\u00e9 [1]\x1b") == "caf\u00e9 [1]?"


def test_an_existing_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "GRID.PNG"
    path.write_bytes(b"old")
    write_picture_grid(path, [picture_row(1, 8)])
    with Image.open(path) as image:
        assert image.format == "PNG"
    assert [entry.name for entry in tmp_path.iterdir()] == ["GRID.PNG"]


def test_a_failed_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "grid.png"
    path.write_bytes(b"old")

    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", full_disk)
    with pytest.raises(DiskError, match=r"grid\.png: No space left on device"):
        write_picture_grid(path, [picture_row(1, 8)])
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["grid.jpg", "grid", "grid.png.txt"])
def test_only_png_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"must end in \.png") as caught:
        write_picture_grid(tmp_path / name, [picture_row(1, 8)])
    assert isinstance(caught.value, ValueError)
    assert list(tmp_path.iterdir()) == []


def test_paths_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="does not exist"):
        check_grid_path(tmp_path / "none" / "grid.png")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(DiskError, match="it is a folder"):
        check_grid_path(tmp_path / "folder.png")
    check_grid_path(tmp_path / "grid.png")


def test_rows_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path, row = tmp_path / "grid.png", picture_row(3, 8)
    with pytest.raises(ValueError, match="at least one picture"):
        write_picture_grid(path, [])
    with pytest.raises(ValueError, match="scale"):
        write_picture_grid(path, [row], scale=-1)
    for original, predicted, hidden in (
        (row.original[:2], row.predicted[:2], row.hidden),
        (row.original, row.predicted[:1], row.hidden),
        (row.original[0], row.predicted[0], row.hidden),
        (row.original[..., :4, :], row.predicted[..., :4, :], row.hidden),
        (row.original, row.predicted, row.hidden[..., :4]),
        (row.original, row.predicted, row.hidden.float()),
    ):
        with pytest.raises(ShapeError):
            write_picture_grid(path, [PictureRow(original, predicted, hidden)])
    with pytest.raises(ShapeError):
        write_picture_grid(path, [row, picture_row(3, 16)])
    assert list(tmp_path.iterdir()) == []
