"""Two files line by line: what ends a line, what is refused, and nothing shifted in silence."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from damcha_core.data.text import file_pairs
from damcha_core.data.text.file_pairs import FilePairs, read_lines, scan_file
from damcha_core.errors import DataError


@pytest.fixture
def write(tmp_path: Path):
    def write(source: bytes, target: bytes) -> tuple[Path, Path]:
        paths = tmp_path / "a.en", tmp_path / "a.de"
        paths[0].write_bytes(source)
        paths[1].write_bytes(target)
        return paths

    return write


def test_pairs_in_order_and_as_often_as_wanted(write):
    pairs = FilePairs(*write(b"one\ntwo\n\nfour\n", b"eins\nzwei\ndrei\nvier\n"))
    wanted = [("one", "eins"), ("two", "zwei"), ("", "drei"), ("four", "vier")]
    assert len(pairs) == 4
    assert list(pairs) == list(pairs) == wanted
    one, other = iter(pairs), iter(pairs)
    assert [next(one), next(one), next(other)] == [*wanted[:2], wanted[0]]


@pytest.mark.parametrize("inside", ["\u2028", "\u0085", "\x0c", "\x0b", "\r", "\u2029", "\x1c"])
def test_a_line_ends_at_its_newline_alone(write, inside):
    text = "".join(f"a{inside}b {i}\n" for i in range(50))
    paths = write(text.encode(), text.encode())
    pairs = FilePairs(*paths)
    assert len(pairs) == 50
    assert [source for source, _ in pairs] == [f"a{inside}b {i}" for i in range(50)]
    counted = subprocess.run(["wc", "-l", paths[0]], capture_output=True, text=True, check=True)
    assert int(counted.stdout.split()[0]) == len(pairs)


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\r"])
def test_line_ends_and_a_byte_order_mark_are_no_text(write, end):
    pairs = FilePairs(*write(b"\xef\xbb\xbfa\r\nb" + end, b"c\nd\n"))
    assert list(pairs) == [("a", "c"), ("b", "d")]


def test_one_carriage_return_is_taken_off_and_a_later_mark_kept(write):
    pairs = FilePairs(*write(b"a\r\r\n\xef\xbb\xbfb\n", b"c\nd\n"))
    assert list(pairs) == [("a\r", "c"), ("\ufeffb", "d")]


@pytest.mark.parametrize("end", ["", "\n"])
def test_unequal_counts_name_both_numbers_and_files(write, end):
    paths = write(b"x\n" * 100, ("\n".join("y" * 99) + end).encode())
    with pytest.raises(DataError) as caught:
        FilePairs(*paths)
    for part in ("100 lines", "has 99", *map(str, paths)):
        assert part in str(caught.value)


def test_a_relative_path_is_named_as_given(write, tmp_path, monkeypatch):
    write(b"a\n", b"b\n")
    monkeypatch.chdir(tmp_path)
    assert FilePairs("a.en", "a.de").name == "a.en and a.de"


def test_path_with_spaces_commas_and_umlauts(tmp_path):
    folder = tmp_path / "données, test 1" / "äöü #2"
    folder.mkdir(parents=True)
    (folder / "a b,.en").write_text("é\n", encoding="utf-8")
    assert list(FilePairs(folder / "a b,.en", folder / "a b,.en")) == [("é", "é")]


def test_not_utf8_names_file_and_line(write, monkeypatch):
    # Blocks of 5 bytes, so that characters and lines lie across their ends.
    monkeypatch.setattr(file_pairs, "_BLOCK", 5)
    lines = ["grün " * 3] * 7
    for number in range(7):
        encoded = [line.encode() for line in lines]
        encoded[number] = "grün".encode("latin-1")
        paths = write(b"\n".join(encoded), b"x")
        with pytest.raises(DataError, match=rf"a\.en is not UTF-8 in line {number + 1} "):
            FilePairs(*paths)
    with pytest.raises(DataError, match="in line 2 "):
        FilePairs(*write(b"a\n\xc3", b"x\ny"))
    assert len(FilePairs(*write("\n".join(lines).encode(), b"x\n" * 7))) == 7


def test_surrogates_and_other_encodings_are_refused(write):
    for text in (b"\xed\xa0\x80\n", "a\n".encode("utf-16"), b"\xc0\x80\n"):
        with pytest.raises(DataError, match="not UTF-8 in line 1 "):
            FilePairs(*write(text, b"a\n"))


@pytest.mark.parametrize("nothing", [b"", b"\xef\xbb\xbf"])
def test_an_empty_file_is_refused(write, nothing):
    with pytest.raises(DataError, match=r"a\.de is empty"):
        FilePairs(*write(b"a\n", nothing))
    assert list(FilePairs(*write(b"\n", b"\n"))) == [("", "")]


def test_folders_pipes_and_missing_files_are_refused(write, tmp_path):
    good, _ = write(b"a\n", b"a\n")
    with pytest.raises(DataError, match="is a folder"):
        FilePairs(good, tmp_path)
    with pytest.raises(DataError, match="cannot be read: No such file"):
        FilePairs(tmp_path / "nothing", good)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="not a file that can be read twice"):
        FilePairs(good, tmp_path / "pipe")


def test_a_file_changed_after_the_scan_is_refused(write):
    for changed in (b"z\na\nb\n", b"a\n", b"a\nb\nc\n", b"a\n\xff\n"):
        paths = write(b"a\nb\n", b"c\nd\n")
        pairs = FilePairs(*paths)
        paths[0].write_bytes(changed)
        with pytest.raises(DataError, match=r"a\.en (has changed|is not UTF-8)"):
            list(pairs)


def test_a_file_changed_while_it_is_read_is_refused(write):
    paths = write(b"a\n" * 10, b"b\n" * 10)
    reading = iter(FilePairs(*paths))
    next(reading)
    paths[1].write_bytes(b"b\n" * 9 + b"c\n")
    os.utime(paths[1], ns=(0, 0))
    with pytest.raises(DataError, match=r"a\.de has changed"):
        list(reading)


def test_a_file_cut_while_it_is_read_is_refused(write, monkeypatch):
    monkeypatch.setattr(file_pairs, "_BLOCK", 16)
    paths = write(b"a\n" * 1000, b"b\n" * 1000)
    reading = iter(FilePairs(*paths))
    next(reading)
    os.truncate(paths[1], 100)
    with pytest.raises(DataError, match=r"a\.de has changed"):
        list(reading)


def test_a_copy_with_another_date_is_no_change(write):
    paths = write(b"a\n", b"b\n")
    pairs = FilePairs(*paths)
    os.utime(paths[0], ns=(0, 0))
    assert list(pairs) == [("a", "b")]


def test_hash_is_of_the_bytes_and_their_side(write):
    def hashed(source: bytes, target: bytes) -> str:
        return FilePairs(*write(source, target)).content_hash

    first = hashed(b"a\n", b"b\n")
    # (printf 'a\n' | sha256sum; printf 'b\n' | sha256sum), as bytes, through sha256sum
    assert first == "6ec7b73f58839768f5eb006d96b02ebaa7bf3d30c5daaccc832663c8266e0931"
    assert len({first, hashed(b"b\n", b"a\n"), hashed(b"a", b"b\n"), hashed(b"a\n", b"a\n")}) == 4
    assert FilePairs(*write(b"a\n", b"a\n")).same_text
    assert not FilePairs(*write(b"a\n", b"b\n")).same_text


def test_scan_reports_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(file_pairs, "_BLOCK", 4)
    monkeypatch.setattr(file_pairs, "_STEP", 8)
    (tmp_path / "a").write_bytes(b"abc\n" * 5)
    seen = []
    scanned = scan_file(tmp_path / "a", notify=lambda *event: seen.append(event[1:]))
    assert scanned.n_lines == 5
    assert seen == [(8, 20), (16, 20)]


def test_lines_come_before_the_file_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(file_pairs, "_BLOCK", 16)
    (tmp_path / "a").write_bytes(b"abc\n" * 10 + b"\xff\n")
    lines = read_lines(tmp_path / "a")
    assert [next(lines) for _ in range(10)] == ["abc"] * 10
    with pytest.raises(UnicodeDecodeError):
        next(lines)
