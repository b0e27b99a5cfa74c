"""What is no picture is refused by name and reason."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from damcha_core.data.picture import MAX_PIXELS, PictureError, open_rgb


def write_bad_files(folder):
    """Name and reason of files that are no pictures."""
    noise = np.random.RandomState(0).randint(0, 255, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(folder / "cut.png")
    Image.fromarray(noise).save(folder / "cut.jpg")
    for name in ("cut.png", "cut.jpg"):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])
    (folder / "text.txt").write_text("hello", encoding="utf-8")
    (folder / "text.png").write_text("no picture", encoding="utf-8")
    (folder / "empty.jpg").write_bytes(b"")
    (folder / "bomb.png").write_bytes(bomb(40_000, 40_000))
    (folder / "large.png").write_bytes(bomb(10_000, 9_000))
    (folder / "program.eps").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    return {
        "cut.png": "damaged picture",
        "cut.jpg": "damaged picture",
        "text.txt": "not a picture",
        "text.png": "not a picture",
        "empty.jpg": "empty file",
        "bomb.png": "pixels allowed",
        "large.png": "10000 x 9000 pixels, more than",
        "program.eps": "not a picture",
        "missing.png": "No such file",
    }


def bomb(width, height):
    """A PNG that promises many pixels and holds few bytes."""

    def chunk(name, body):
        check = struct.pack(">I", zlib.crc32(name + body))
        return struct.pack(">I", len(body)) + name + body + check

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    data = zlib.compress(bytes(1000))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )


def test_bad_files_are_refused_by_name_and_reason(tmp_path):
    for name, reason in write_bad_files(tmp_path).items():
        with pytest.raises(PictureError, match=reason) as caught:
            open_rgb(tmp_path / name, 8)
        assert name in str(caught.value)
        assert caught.value.exit_code == 3


def test_not_finite_pictures_are_refused(tmp_path):
    Image.fromarray(np.full((4, 4), np.nan, np.float32)).save(tmp_path / "nan.tiff")
    with pytest.raises(PictureError, match="not finite"):
        open_rgb(tmp_path / "nan.tiff", 8)


def test_limit_is_that_of_pillow():
    assert MAX_PIXELS == Image.MAX_IMAGE_PIXELS


def test_names_of_any_bytes(tmp_path):
    path = tmp_path / "müde Katze \udcff.png"
    Image.new("RGB", (9, 9), (1, 2, 3)).save(path, format="png")
    assert open_rgb(path, 4)[:, 1, 1].tolist() == [1, 2, 3]
    path.write_text("none", encoding="utf-8")
    with pytest.raises(PictureError) as caught:
        open_rgb(path, 4)
    assert "müde Katze \\xff.png" in str(caught.value)
    str(caught.value).encode("utf-8")
