"""Parallel text of one's own or of WMT14: one file a split and language.

The files are `train.en`, `train.de`, `valid.en`, `valid.de`, `test.en` and `test.de`, or other
languages alike, in the data root or in a folder wmt14 or wmt there. newstest2013 is taken for
valid and newstest2014 for test where there is no file with the plain name, as after a download
of WMT14.
"""

from __future__ import annotations

import os
from itertools import combinations
from pathlib import Path

from damcha_core.data.notify import Notify, no_notice
from damcha_core.data.text.file_pairs import FilePairs
from damcha_core.data.text.pairs import TextData
from damcha_core.errors import DataError, UsageError
from damcha_core.files import printable_name

_FOLDERS = ("", "wmt14", "wmt")
_NAMES = {
    "train": ("train",),
    "valid": ("valid", "newstest2013"),
    "test": ("test", "newstest2014"),
}


def load_wmt(
    *,
    root: str | Path,
    source_lang: str = "en",
    target_lang: str = "de",
    notify: Notify = no_notice,
) -> TextData:
    """Read parallel text files; any two languages, whose names are the ends of the file names.

    Args:
        root: the data root.
        source_lang: end of the names of the source files, in small and capital letters as there.
        target_lang: end of the names of the target files.
        notify: told about the bytes of the first pass over each file.

    Returns:
        train, valid and, where it is there, test; otherwise the reason in `absent`.

    Raises:
        UsageError: a language is not fit to end a file name, or both are the same.
        DataError: a file of train or valid is missing.
        DataError: the files of a split do not fit together, see `FilePairs`.
    """
    languages = (source_lang, target_lang)
    _check_languages(languages)
    root = Path(root).expanduser()
    folder = _find_folder(root, languages)
    splits: dict[str, FilePairs] = {}
    absent: dict[str, str] = {}
    halves: list[str] = []
    for split in _NAMES:
        paths = _find_split(folder, split, languages)
        missing = [path.name for path in paths if not os.path.lexists(path)]
        if not missing:
            splits[split] = FilePairs(*paths, notify=notify)
        elif split == "test":
            absent[split] = (
                f"{_listed(missing)}: looked for in {printable_name(folder.absolute())}, not found"
            )
            if len(missing) == 1:
                halves.append(f"there is no test split: {absent[split]}")
        else:
            raise DataError(_missing(folder, missing, languages))
    return TextData(splits, absent=absent, notices=[*halves, *_suspicions(splits)])


def _check_languages(languages: tuple[str, str]) -> None:
    for language in languages:
        if not language.strip() or os.path.basename(language) != language or "\0" in language:
            raise UsageError(
                f"{language!r} is no language: data.source_lang and data.target_lang are the ends "
                "of the file names, such as en for train.en"
            )
    if languages[0] == languages[1]:
        raise UsageError(
            f"data.source_lang and data.target_lang are both {languages[0]!r}: a translation "
            "needs two languages"
        )


def _find_folder(root: Path, languages: tuple[str, str]) -> Path:
    """The first place with the whole of train or else with a part of it."""
    places = [root / name for name in _FOLDERS]
    for enough in (all, any):
        for place in places:
            if enough(os.path.lexists(path) for path in _find_split(place, "train", languages)):
                return place
    wanted = _listed([f"train.{language}" for language in languages])
    where = _listed([printable_name(place.absolute()) for place in places])
    others = sorted({name for place in places for name in _training_files(place)})
    there = f" (there are {_listed(others)})" if others else ""
    raise DataError(
        f"wmt: {wanted}: looked for in {where}, not found{there}. {_advice(root, languages)}"
    )


def _find_split(folder: Path, split: str, languages: tuple[str, str]) -> list[Path]:
    """The two files of a split: those of the first name of which one is there."""
    for name in _NAMES[split]:
        paths = [folder / f"{name}.{language}" for language in languages]
        if any(os.path.lexists(path) for path in paths):
            return paths
    return [folder / f"{split}.{language}" for language in languages]


def _training_files(folder: Path) -> list[str]:
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return [printable_name(name) for name in names if name.startswith("train.")]


def _missing(folder: Path, missing: list[str], languages: tuple[str, str]) -> str:
    where = printable_name(folder.absolute())
    others = sorted(set(_training_files(folder)))
    are = "is" if len(missing) == 1 else "are"
    return (
        f"wmt: {_listed(missing)} {are} not in {where} (there are {_listed(others)}). "
        f"{_advice(folder, languages)}"
    )


def _advice(folder: Path, languages: tuple[str, str]) -> str:
    ends = _listed([f".{language}" for language in languages])
    return (
        f"Put train, valid and test, each with {ends} (UTF-8, one sentence a line, as many lines "
        f"in both), into {printable_name(folder.absolute())}, or point data.root or DAMCHA_DATA "
        "at the folder that has them, or set data.source_lang and data.target_lang.\n"
        "This runs today, on built-in data: damcha train --task cldr"
    )


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _suspicions(splits: dict[str, FilePairs]) -> list[str]:
    notices = [
        f"{split}: {pairs.name} hold the same text, so there is nothing to translate"
        for split, pairs in splits.items()
        if pairs.same_text
    ]
    notices += [
        f"{one} and {other} hold the same pairs: scores on {other} say nothing about new text"
        for one, other in combinations(splits, 2)
        if splits[one].content_hash == splits[other].content_hash
    ]
    return notices
