"""Parallel files: where they are looked for, which names they may have, and what is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from damcha_core.data.text.wmt import load_wmt
from damcha_core.errors import DataError, UsageError


def fill(folder: Path, names=("train", "valid", "test"), languages=("en", "de")) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(names):
        for language in languages:
            text = "".join(f"{name} {language} {row}\n" for row in range(3 + i))
            (folder / f"{name}.{language}").write_text(text, encoding="utf-8")


def message(error: type[Exception], **arguments) -> str:
    with pytest.raises(error) as caught:
        load_wmt(**arguments)
    return str(caught.value)


@pytest.mark.parametrize("place", ["", "wmt14", "wmt"])
def test_three_places(tmp_path, place):
    fill(tmp_path / place)
    data = load_wmt(root=str(tmp_path))
    assert {name: len(pairs) for name, pairs in data.splits.items()} == {
        "train": 3,
        "valid": 4,
        "test": 5,
    }
    assert next(iter(data.split("valid"))) == ("valid en 0", "valid de 0")
    assert not data.absent
    assert not data.notices


def test_any_two_languages_in_both_directions(tmp_path):
    fill(tmp_path, languages=("fr", "pt_BR"))
    data = load_wmt(root=tmp_path, source_lang="pt_BR", target_lang="fr")
    assert next(iter(data.split("test"))) == ("test pt_BR 0", "test fr 0")


def test_the_first_whole_place_wins(tmp_path):
    fill(tmp_path / "wmt")
    fill(tmp_path / "wmt14", names=("train",), languages=("en",))
    assert "wmt14" not in load_wmt(root=tmp_path).split("train").name
    fill(tmp_path, names=("train", "valid"))
    assert set(load_wmt(root=tmp_path).splits) == {"train", "valid"}


def test_names_of_wmt14_stand_in_for_valid_and_test(tmp_path):
    fill(tmp_path, names=("train", "newstest2013", "newstest2014"))
    data = load_wmt(root=tmp_path)
    assert next(iter(data.split("valid")))[0] == "newstest2013 en 0"
    assert next(iter(data.split("test")))[1] == "newstest2014 de 0"
    fill(tmp_path, names=("valid", "test"))
    assert next(iter(load_wmt(root=tmp_path).split("test")))[0] == "test en 0"


def test_names_are_never_mixed_within_a_split(tmp_path):
    fill(tmp_path, names=("train", "newstest2013"))
    fill(tmp_path, names=("valid",), languages=("en",))
    assert "valid.de is not in" in message(DataError, root=tmp_path)


def test_nothing_there_says_where_and_what_runs_today(tmp_path):
    said = message(DataError, root=tmp_path / "none")
    for part in (
        "train.en and train.de",
        "none, ",
        "none/wmt14 and ",
        "none/wmt, not found",
        "DAMCHA_DATA",
    ):
        assert part in said
    assert said.endswith("\nThis runs today, on built-in data: damcha train --task cldr")
    assert said.count("\n") == 1


def test_other_languages_there_are_named(tmp_path):
    fill(tmp_path, languages=("fr", "es"))
    assert "there are train.es and train.fr" in message(DataError, root=tmp_path)
    said = message(DataError, root=tmp_path, source_lang="fr")
    assert "train.de is not in" in said
    assert "train.es and train.fr" in said


def test_missing_valid_is_refused_and_missing_test_noted(tmp_path):
    fill(tmp_path, names=("train",))
    assert "valid.en and valid.de are not in" in message(DataError, root=tmp_path)
    fill(tmp_path, names=("valid",))
    fill(tmp_path, names=("test",), languages=("en",))
    data = load_wmt(root=tmp_path)
    assert "test.de: looked for in" in data.absent["test"]
    with pytest.raises(UsageError, match=r"test\.de: looked for"):
        data.split("test")


def test_unequal_files_are_refused_at_once(tmp_path):
    fill(tmp_path)
    (tmp_path / "test.de").write_text("one\n", encoding="utf-8")
    assert "5 lines" in message(DataError, root=tmp_path)


@pytest.mark.parametrize("language", ["", " ", "../en", "a/b", "e\0n"])
def test_what_is_no_language(tmp_path, language):
    assert "is no language" in message(UsageError, root=tmp_path, target_lang=language)


def test_two_times_the_same_language(tmp_path):
    assert "both 'de'" in message(UsageError, root=tmp_path, source_lang="de")


def test_same_text_is_noticed(tmp_path):
    fill(tmp_path)
    (tmp_path / "train.de").write_bytes((tmp_path / "train.en").read_bytes())
    for language in ("en", "de"):
        (tmp_path / f"test.{language}").write_bytes((tmp_path / f"valid.{language}").read_bytes())
    first, second = load_wmt(root=tmp_path).notices
    assert first.startswith("train: ")
    assert "hold the same text" in first
    assert second.startswith("valid and test hold the same pairs")
