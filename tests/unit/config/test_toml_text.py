"""Files that are no TOML: one or two plain lines with file and line, never a traceback."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from damcha_core.config.toml_text import LARGEST_BYTES, parse_toml, read_toml
from damcha_core.errors import ConfigError


def problem(text):
    with pytest.raises(ConfigError) as caught:
        parse_toml(text, "a.toml")
    (line,) = caught.value.problems
    assert line.isprintable()
    return line


def file_problem(path):
    with pytest.raises(ConfigError) as caught:
        read_toml(path)
    (line,) = caught.value.problems
    assert line.isprintable()
    return line


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_byte_order_mark_and_line_ends_of_notepad(tmp_path, ends, mark):
    path = tmp_path / "a.toml"
    path.write_bytes(mark + ends.join(["# Grüße", "[train]", "lr = 1e-3", ""]).encode())
    assert read_toml(path) == {"train": {"lr": 1e-3}}


def test_syntax_errors_name_the_line_and_quote_it():
    line = problem("[train]\nepochs = 3\nlr = abc\n")
    assert line.startswith("a.toml, line 3: this is not TOML (invalid value)")
    assert '"lr = abc"' in line


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('root = "C:\\data"', "single quotes"),
        ('root = "C:\\Users\\me"', "single quotes"),
        ("verify = True", "small letters"),
        ("verify = FALSE", "small letters"),
        ("name = None", "leave the key out"),
        ("name = null", "leave the key out"),
        ("lr: 3", 'not "key: value"'),
        ("name = first", "in quotes"),
        ("root = ./data", "in quotes"),
        ("lr =", "a value is missing"),
        ("lr = # later", "a value is missing"),
    ],
)
def test_usual_mistakes_get_a_hint(text, hint):
    assert hint in problem(f"\n{text}\n")
    assert problem(f"\n{text}\n").startswith("a.toml, line 2:")


def test_an_unfinished_text_names_the_last_line():
    assert problem('name = """abc').startswith("a.toml, line 1: this is not TOML (unterm")
    assert problem('name = """abc\n\n').startswith("a.toml, line 3: ")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "[train]\nlr = 1\nepochs = 2\nlr = 3\n",
            "line 4: train.lr is given twice, first on line 2",
        ),
        ("lr = 1\nlr = 3 # again", "line 2: lr is given twice, first on line 1"),
        (
            "[model]\nlr = 1\n[train]\nlr = 1\nlr=2",
            "line 5: train.lr is given twice, first on line 4",
        ),
        ("[train]\nlr = 1\n[train] # again\n", "line 3: [train] is given twice, first on line 1"),
        ("[a]\nb.c = 1\nb.c = 2\n", "line 3: a.b.c is given twice, first on line 2"),
        ('a = """\nx\n"""\na = """\nx\n"""\n', "line 6: something is given twice"),
        ("[train]\r\nlr = 1\r\nlr = 3\r\n", "line 3: train.lr is given twice, first on line 2"),
        ("a = 1\na.b = 2\n", "line 2: a.b is given twice"),
    ],
)
def test_a_key_given_twice_is_named_with_both_lines(text, line):
    assert problem(text).startswith(f"a.toml, {line}")


def test_deep_nesting_and_long_numbers_name_their_line():
    assert problem("a = 1\nb = " + "[" * 3000) == (
        "a.toml, line 2: lists or tables are nested too deeply"
    )
    assert problem("a = 1\nb = " + "9" * 5000) == "a.toml, line 2: a number has too many digits"


def test_a_lower_limit_on_digits_is_met_without_a_line():
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert problem("a = 1\nb = " + "9" * 700) == "a.toml: a number has too many digits"
    finally:
        sys.set_int_max_str_digits(before)


def test_a_long_line_is_refused_before_it_is_parsed():
    assert problem("a = 1\n" + ".".join("a" * 4000) + " = 1") == (
        "a.toml, line 2: longer than 6000 characters"
    )


@pytest.mark.parametrize(
    "text", ["a = 2024-13-45", "a = 1\x00", "a = 1\rb = 2", "a = '''\n", "\ufeffa = 1"]
)
def test_other_broken_texts_are_refused_too(text):
    assert problem(text).startswith("a.toml, line 1: ") or "line 2" in problem(text)


@pytest.mark.parametrize("content", [b"a = 1\nb = '\xff'\n", b"a=1\n\xfe\xff\x00a"])
def test_text_that_is_not_utf8_names_the_line(tmp_path, content):
    path = tmp_path / "a.toml"
    path.write_bytes(content)
    assert file_problem(path) == f"{path}, line 2: this is not UTF-8 text; save the file as UTF-8"


def test_missing_file_and_folder(tmp_path):
    assert file_problem(tmp_path / "none.toml") == f"{tmp_path}/none.toml: there is no such file"
    assert file_problem(tmp_path) == f"{tmp_path}: this is a folder, not a run file"


def test_unreadable_paths(tmp_path):
    assert "cannot be read" in file_problem(tmp_path / ("x" * 5000))
    assert "cannot be read" in file_problem(tmp_path / "a\x00b")
    under_a_file = tmp_path / "file"
    under_a_file.write_text("")
    assert "cannot be read" in file_problem(under_a_file / "a.toml")


def test_a_file_without_permission(tmp_path, monkeypatch):
    def refuse(*arguments, **keywords):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)  # root may read any file, so none is made here
    assert "cannot be read (Permission denied)" in file_problem(tmp_path / "a.toml")


def test_a_file_that_is_too_large(tmp_path):
    path = tmp_path / "a.toml"
    path.write_bytes(b"#\n" * LARGEST_BYTES)
    assert file_problem(path) == f"{path}: larger than 32 KiB: no run file"
