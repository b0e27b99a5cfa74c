"""Pictures of every mode become the right RGB."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image, ImageCms

from damcha_core.data.picture import grey_to_bytes, open_rgb

RED, GREEN, BLUE, WHITE = (200, 30, 40), (20, 180, 60), (10, 40, 220), (255, 255, 255)
SIDE = 16


def corners(*, size=SIDE):
    """Red top left, green top right, blue bottom left, white bottom right."""
    picture = Image.new("RGB", (size, size))
    half = size // 2
    for (x, y), colour in {(0, 0): RED, (1, 0): GREEN, (0, 1): BLUE, (1, 1): WHITE}.items():
        picture.paste(colour, (x * half, y * half, (x + 1) * half, (y + 1) * half))
    return picture


def colours(tensor):
    """Colours in the middle of the four quarters, row by row."""
    assert tensor.dtype == torch.uint8
    assert tensor.shape[0] == 3
    near, far = tensor.shape[1] // 4, 3 * tensor.shape[1] // 4
    return [tensor[:, y, x].tolist() for y in (near, far) for x in (near, far)]


def assert_close(found, expected, tolerance):
    assert np.abs(np.array(found) - np.array(expected)).max() <= tolerance, found


def grey_of(colour):
    return [round(np.dot(colour, (0.299, 0.587, 0.114)))] * 3


@pytest.mark.parametrize(
    ("mode", "ending", "tolerance"),
    [
        ("RGB", "png", 0),
        ("RGB", "bmp", 0),
        ("RGB", "ppm", 0),
        ("RGB", "jpg", 8),
        ("RGB", "webp", 12),
        ("P", "png", 0),
        ("P", "gif", 0),
        ("RGBA", "png", 0),
        ("CMYK", "tiff", 2),
        ("CMYK", "jpg", 8),
        ("YCbCr", "tiff", 3),
        ("YCbCr", "jpg", 8),
        ("HSV", "", 6),
        ("RGBX", "", 0),
    ],
)
def test_colour_modes(tmp_path, mode, ending, tolerance):
    path = tmp_path / f"picture.{ending}"
    picture = corners()
    if not ending:  # no format of Pillow writes this mode: the conversion alone is tried
        found = open_converted(tmp_path, picture.convert(mode))
        assert_close(colours(found), QUARTERS, tolerance)
        return
    picture = picture.quantize(8) if mode == "P" else picture.convert(mode)
    options = {"quality": 95, "subsampling": 0} if ending == "jpg" else {}
    picture.save(path, **options)
    with Image.open(path) as stored:
        assert stored.mode == mode or ending in ("jpg", "webp", "gif")
    assert_close(colours(open_rgb(path, SIDE)), QUARTERS, tolerance)


QUARTERS = [RED, GREEN, BLUE, WHITE]


def open_converted(tmp_path, picture):
    """Decode a picture whose mode no file format of Pillow writes."""
    path = tmp_path / "any.png"
    Image.new("RGB", picture.size).save(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Image, "open", lambda *_, **__: picture)
        return open_rgb(path, picture.size[0])


def test_lab(tmp_path):
    to_lab = ImageCms.buildTransform(
        ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), "RGB", "LAB"
    )
    path = tmp_path / "lab.tiff"
    ImageCms.applyTransform(corners(), to_lab).save(path)
    # Eight bits of L, a and b: saturated colours move by a few steps on the way.
    assert_close(colours(open_rgb(path, SIDE)), QUARTERS, 14)


@pytest.mark.parametrize("mode", ["L", "1", "LA"])
def test_grey_modes(tmp_path, mode):
    path = tmp_path / "grey.png"
    if mode == "1":
        Image.fromarray(np.eye(2, dtype=bool).repeat(8, 0).repeat(8, 1)).save(path)
        expected = [[255] * 3, [0] * 3, [0] * 3, [255] * 3]
    else:
        corners().convert(mode).save(path)
        expected = [grey_of(colour) for colour in QUARTERS]
    with Image.open(path) as stored:
        assert stored.mode == mode
    assert_close(colours(open_rgb(path, SIDE)), expected, 1)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "PA", "RGBa", "La"])
def test_transparency_is_laid_on_white(tmp_path, mode):
    picture = Image.new("RGBA", (SIDE, SIDE), (0, 0, 0, 0))
    picture.paste((0, 0, 0, 255), (0, 0, 8, 16))
    picture.paste((0, 0, 0, 128), (0, 8, 8, 16))
    if mode == "PA":
        picture = Image.new("PA", (SIDE, SIDE))
        picture.putpalette([0, 0, 0])
        picture.putalpha(Image.fromarray(np.array(transparency(), np.uint8)))
    elif mode in ("LA", "La"):
        picture = picture.convert("LA").convert(mode)
    else:
        picture = picture.convert(mode)
    assert picture.mode == mode
    found = colours(open_converted(tmp_path, picture))
    assert_close(found, [[0] * 3, [255] * 3, [127] * 3, [255] * 3], 1)


def transparency():
    alpha = np.zeros((SIDE, SIDE))
    alpha[:8, :8], alpha[8:, :8] = 255, 128
    return alpha


def test_palette_with_a_transparent_colour(tmp_path):
    picture = Image.fromarray(np.eye(2, dtype=np.uint8).repeat(8, 0).repeat(8, 1), mode=None)
    palette = picture.convert("P")
    palette.putpalette([*BLUE, *RED])
    palette.save(tmp_path / "one.png", transparency=0)
    palette.save(tmp_path / "half.png", transparency=bytes([255, 0]))
    palette.save(tmp_path / "one.gif", transparency=0)
    expected = [RED, WHITE, WHITE, RED]
    assert_close(colours(open_rgb(tmp_path / "one.png", SIDE)), expected, 0)
    assert_close(colours(open_rgb(tmp_path / "one.gif", SIDE)), expected, 0)
    expected = [WHITE, BLUE, BLUE, WHITE]
    assert_close(colours(open_rgb(tmp_path / "half.png", SIDE)), expected, 0)


def test_a_colour_that_stands_for_transparent(tmp_path):
    corners().save(tmp_path / "key.png", transparency=RED)
    assert_close(colours(open_rgb(tmp_path / "key.png", SIDE)), [WHITE, GREEN, BLUE, WHITE], 0)


@pytest.mark.parametrize("ending", ["png", "tiff"])
def test_16_bit_grey_is_scaled(tmp_path, ending):
    values = np.array([[0, 257 * 100], [257 * 200, 65535]], np.uint16).repeat(8, 0).repeat(8, 1)
    Image.fromarray(values).save(tmp_path / f"deep.{ending}")
    found = colours(open_rgb(tmp_path / f"deep.{ending}", SIDE))
    assert_close(found, [[0] * 3, [100] * 3, [200] * 3, [255] * 3], 0)


def test_16_bit_grey_with_a_transparent_value(tmp_path):
    values = np.array([[0, 257 * 100], [257 * 200, 0]], np.uint16).repeat(8, 0).repeat(8, 1)
    Image.fromarray(values).save(tmp_path / "deep.png", transparency=0)
    found = colours(open_rgb(tmp_path / "deep.png", SIDE))
    assert_close(found, [[255] * 3, [100] * 3, [200] * 3, [255] * 3], 0)


def test_big_endian_16_bit(tmp_path):
    values = np.array([[0, 257 * 100], [257 * 200, 65535]], ">u2").repeat(8, 0).repeat(8, 1)
    header = f"P5 {SIDE} {SIDE} 65535\n".encode()
    (tmp_path / "deep.pgm").write_bytes(header + values.tobytes())
    found = colours(open_rgb(tmp_path / "deep.pgm", SIDE))
    assert_close(found, [[0] * 3, [100] * 3, [200] * 3, [255] * 3], 0)


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        (np.int32, [[0, 100], [200, 255]], [0, 100, 200, 255]),
        (np.int32, [[0, 25700], [51400, 65535]], [0, 100, 200, 255]),
        (np.int32, [[-1000, 0], [1000, 1000]], [0, 128, 255, 255]),
        (np.int32, [[0, 0], [2**30, 2**31 - 1]], [0, 0, 128, 255]),
        (np.float32, [[0, 0.4], [0.8, 1]], [0, 102, 204, 255]),
        (np.float32, [[0, 100], [200, 255]], [0, 100, 200, 255]),
        (np.float32, [[-1, 0], [0, 1]], [0, 128, 128, 255]),
        (np.float32, [[0, 0], [0, 0]], [0, 0, 0, 0]),
    ],
)
def test_wide_grey_is_scaled_and_never_clipped(tmp_path, dtype, values, expected):
    array = np.array(values, dtype).repeat(8, 0).repeat(8, 1)
    picture = Image.fromarray(array)
    assert picture.mode in "IF"
    picture.save(tmp_path / "wide.tiff")
    found = colours(open_rgb(tmp_path / "wide.tiff", SIDE))
    assert_close(found, [[grey] * 3 for grey in expected], 0)


def test_values_outside_every_range_are_stretched():
    flat = grey_to_bytes(np.full((2, 2), -3.0), is_16_bit=False)
    assert flat.tolist() == [[0, 0], [0, 0]]
    with pytest.raises(ValueError, match="not finite"):
        grey_to_bytes(np.array([0.0, np.nan]), is_16_bit=False)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_rotation_is_applied(tmp_path, orientation):
    undo = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    picture = corners(size=64)
    if orientation in undo:
        picture = picture.transpose(undo[orientation])
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture.save(tmp_path / "turned.jpg", exif=exif, quality=95, subsampling=0)
    assert_close(colours(open_rgb(tmp_path / "turned.jpg", SIDE)), QUARTERS, 8)


@pytest.mark.parametrize("ending", ["gif", "webp", "png", "tiff"])
def test_first_frame_of_an_animation(tmp_path, ending):
    frames = [Image.new("RGB", (SIDE, SIDE), GREEN), Image.new("RGB", (SIDE, SIDE), BLUE)]
    path = tmp_path / f"moving.{ending}"
    corners().save(path, save_all=True, append_images=frames, lossless=True)
    assert_close(colours(open_rgb(path, SIDE)), QUARTERS, 8 if ending == "webp" else 0)


@pytest.mark.parametrize(("width", "height"), [(48, 16), (16, 48), (33, 31), (200, 190), (1, 1)])
@pytest.mark.parametrize("ending", ["png", "jpg"])
def test_centre_square_of_any_size(tmp_path, width, height, ending):
    side = min(width, height)
    picture = Image.new("RGB", (width, height), GREEN)
    left, top = (width - side) // 2, (height - side) // 2
    picture.paste(RED, (left, top, left + side, top + side))
    picture.save(tmp_path / f"odd.{ending}", **({"subsampling": 0} if ending == "jpg" else {}))
    found = open_rgb(tmp_path / f"odd.{ending}", 8)
    assert found.shape == (3, 8, 8)
    assert_close(colours(found), [RED] * 4, 12)


def test_shrinking_is_antialiased(tmp_path):
    stripes = np.zeros((64, 64), np.uint8)
    stripes[:, ::2] = 255
    Image.fromarray(stripes).save(tmp_path / "stripes.png")
    found = open_rgb(tmp_path / "stripes.png", 8)[:, :, 1:-1]
    assert (found.float() - 127.5).abs().max() < 8


def test_growing_works(tmp_path):
    corners(size=4).save(tmp_path / "small.png")
    assert_close(colours(open_rgb(tmp_path / "small.png", 32)), QUARTERS, 30)
