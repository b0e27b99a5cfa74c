"""The script that packs the built-in texts, and that the shipped ones are what it makes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import babel.core
import pytest
from builtin_text import build

from damcha_core.data.text import builtin
from damcha_core.data.text.builtin import PackedText, read_packed
from damcha_core.errors import DataError

SCRIPT = Path(build.__file__)
STORED = PackedText({"babel": "2.19.0", "cldr": "49"}, {"train": [("a", "b")] * 3})


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """An empty folder in place of that of the packed files, and two small texts to pack."""
    monkeypatch.setattr(builtin, "FOLDER", tmp_path)
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    splits = {"train": [("one\u2028line", "ü\u00a0"), ("", "")], "test": [("a b", "c")]}
    monkeypatch.setitem(build.TEXTS, "cldr", lambda: PackedText({"cldr": "49"}, splits))
    monkeypatch.setitem(build.TEXTS, "concepts", lambda: PackedText({}, {"train": [], "test": []}))
    return tmp_path


@pytest.mark.skipif(
    build.cldr_release() != read_packed("cldr").origin["cldr"],
    reason="the installed Babel has another CLDR than the shipped phrases were made from",
)
def test_shipped_texts_are_what_the_script_makes(tmp_path):
    # As a user calls it, from another folder.
    run = subprocess.run(
        [sys.executable, SCRIPT, "--check"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_what_is_packed_is_read_back(folder):
    build.main([])
    assert sorted(path.name for path in folder.iterdir()) == ["cldr.txt.xz", "concepts.txt.xz"]
    for name, make in build.TEXTS.items():
        assert read_packed(name) == make()
    build.main(["--check"])


def test_the_same_text_gives_the_same_bytes(folder):
    assert build.pack(build.TEXTS["cldr"]()) == build.pack(build.TEXTS["cldr"]())


def test_a_difference_is_named_with_its_split(folder, monkeypatch):
    build.main([])
    monkeypatch.setitem(build.TEXTS, "concepts", lambda: PackedText({}, {"test": [("a", "b")]}))
    with pytest.raises(SystemExit) as stop:
        build.main(["--check"])
    assert str(stop.value).split("\n") == [
        "concepts: test differs from pair 1 on, 0 pairs are stored and 1 made",
        "to store the texts as they are made now: python scripts/builtin_text/build.py",
    ]


@pytest.mark.parametrize(
    ("pairs", "text"),
    [
        ([("a", "b"), ("a", "c"), ("a", "b")], "from pair 2 on, 3 pairs are stored and 3 made"),
        ([("a", "b")] * 2, "from pair 3 on, 3 pairs are stored and 2 made"),
        ([("a", "b")] * 4, "from pair 4 on, 3 pairs are stored and 4 made"),
    ],
)
def test_the_first_pair_that_differs(pairs, text):
    made = PackedText(STORED.origin, {"train": pairs})
    assert list(build.differences("cldr", STORED, made)) == [f"cldr: train differs {text}"]


def test_a_split_more_or_less_is_a_difference():
    more = PackedText(STORED.origin, {**STORED.splits, "other": [("c", "d")]})
    assert "other differs from pair 1" in next(build.differences("cldr", STORED, more))
    assert "other differs from pair 1" in next(build.differences("cldr", more, STORED))


def test_another_release_of_cldr_is_said_and_nothing_compared():
    made = PackedText({"babel": "2.14.0", "cldr": "42"}, {"train": []})
    assert list(build.differences("cldr", STORED, made)) == [
        "cldr: the stored pairs are of CLDR 49 (Babel 2.19.0), installed is CLDR 42 (Babel "
        "2.14.0): they cannot be compared"
    ]


def test_another_babel_with_the_same_cldr_is_compared():
    made = PackedText({"babel": "2.20.0", "cldr": "49"}, STORED.splits)
    assert list(build.differences("cldr", STORED, made)) == []


def test_a_missing_file_is_said(folder):
    with pytest.raises(DataError):
        read_packed("cldr")
    with pytest.raises(SystemExit, match="the built-in text concepts cannot be read"):
        build.main(["--check"])


def test_other_arguments_are_refused():
    with pytest.raises(SystemExit, match="unknown arguments --chekc; give --check or nothing"):
        build.main(["--chekc"])


def test_origin_of_the_phrases(monkeypatch):
    monkeypatch.setattr(build, "phrases", dict)
    origin = build.cldr().origin
    assert origin["babel"] == babel.__version__
    assert origin["cldr"] == "unknown" or int(origin["cldr"].split(".")[0]) >= 40


def test_a_babel_that_does_not_tell_its_cldr(monkeypatch):
    monkeypatch.delattr("babel.core.get_cldr_version", raising=False)
    assert build.cldr_release() == "unknown"
