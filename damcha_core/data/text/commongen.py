"""CommonGen: sentences for sets of concepts, in the layout of its official files.

Source: CommonGen: A Constrained Text Generation Challenge for Generative Commonsense Reasoning,
arXiv 1911.03705. A split is `commongen.{train,dev,test}.src_alpha.txt`, a concept set a line,
repeated for each of its sentences, and the sentences in `.tgt.txt`, line by line.
"""

from __future__ import annotations

import os
from itertools import combinations
from pathlib import Path

from damcha_core.data.notify import Notify, no_notice
from damcha_core.data.text.file_pairs import FilePairs, read_lines, scan_file
from damcha_core.data.text.pairs import TextData
from damcha_core.errors import DataError
from damcha_core.files import printable_name

_FOLDERS = ("", "commongen")
_OFFICIAL = {"train": "train", "valid": "dev", "test": "test"}
_SOURCE, _TARGET = "src_alpha", "tgt"
_BESIDE = ("index", "cs_str")


def load_commongen(
    *,
    root: str | Path,
    source_lang: str = "",
    target_lang: str = "",
    notify: Notify = no_notice,
) -> TextData:
    """Read the official files; the source of a pair is its concepts with spaces between.

    Files `index.txt` and `cs_str.txt` are not needed; where they are, their rows are counted.

    Args:
        root: the data root; the files lie there or in a folder commongen there.
        source_lang: not used.
        target_lang: not used.
        notify: told about the bytes of the first pass over each file.

    Returns:
        train, valid (the official dev) and, where its sentences are there, test; otherwise the
        reason in `absent`. Concept sets that are in two splits are counted in `notices`.

    Raises:
        DataError: a file of train or dev is missing.
        DataError: the files of a split do not fit together, see `FilePairs`.
    """
    root = Path(root).expanduser()
    folder = _find_folder(root)
    splits: dict[str, FilePairs] = {}
    absent: dict[str, str] = {}
    for split in _OFFICIAL:
        reason = _no_sentences(folder, split) if split == "test" else None
        if reason is not None:
            absent[split] = reason
        else:
            splits[split] = _read_split(folder, split, notify)
    return TextData(splits, absent=absent, notices=_leaks(splits))


def _path(folder: Path, split: str, part: str) -> Path:
    return folder / f"commongen.{_OFFICIAL[split]}.{part}.txt"


def _find_folder(root: Path) -> Path:
    places = [root / name for name in _FOLDERS]
    needed = [(split, part) for split in ("train", "valid") for part in (_SOURCE, _TARGET)]
    missing: list[str] = []
    for place in places:
        lacking = [_path(place, *key).name for key in needed]
        lacking = [name for name in lacking if not os.path.lexists(place / name)]
        if not lacking:
            return place
        # What is said to be missing is what the fullest place lacks.
        missing = min(missing or lacking, lacking, key=len)
    where = " and ".join(printable_name(place.absolute()) for place in places)
    raise DataError(
        f"CommonGen: {', '.join(missing)}: looked for in {where}, not found. Get the "
        "official files (https://inklab.usc.edu/CommonGen) and put "
        "commongen.{train,dev,test}.{src_alpha,tgt}.txt into "
        f"{printable_name(places[-1].absolute())}, or point data.root or DAMCHA_DATA at the folder "
        "that has them.\nThis runs today, on built-in data: damcha train --task concepts"
    )


def _no_sentences(folder: Path, split: str) -> str | None:
    """Why the sentences of a split are not there; None when they are."""
    hidden = "the official test sentences are not public; score on valid instead"
    for part in (_SOURCE, _TARGET):
        path = _path(folder, split, part)
        if not os.path.lexists(path):
            return f"{printable_name(path)} is not there; {hidden}"
    path = _path(folder, split, _TARGET)
    return f"{printable_name(path)} is empty; {hidden}" if _is_blank(path) else None


def _is_blank(path: Path) -> bool:
    try:
        return not any(line.strip() for line in read_lines(path))
    except UnicodeDecodeError:
        return False


def _read_split(folder: Path, split: str, notify: Notify) -> FilePairs:
    source, target = (_path(folder, split, part) for part in (_SOURCE, _TARGET))
    pairs = FilePairs(source, target, notify=notify)
    for part in _BESIDE:
        path = _path(folder, split, part)
        if os.path.lexists(path) and (n_rows := scan_file(path).n_lines) != len(pairs):
            raise DataError(
                f"{printable_name(path)} has {n_rows:,} rows and {printable_name(source)} has "
                f"{len(pairs):,}: they are of different releases. Get all files of one release; "
                f"{path.name} itself is not needed and can be taken away"
            )
    return pairs


def _leaks(splits: dict[str, FilePairs]) -> list[str]:
    sets = {
        split: {frozenset(source.split()) for source, _ in pairs} for split, pairs in splits.items()
    }
    shared = {(one, other): len(sets[one] & sets[other]) for one, other in combinations(sets, 2)}
    return [
        f"{n:,} of the {len(sets[other]):,} concept sets of {other} are also in {one}: scores on "
        f"{other} are too good by what is known from there"
        for (one, other), n in shared.items()
        if n
    ]
