"""Which picture files belong to which split and which class."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from damcha_core.errors import DataError
from damcha_core.files import name_position, printable_name

SplitName = Literal["train", "valid", "test"]
HELD_OUT_SHARE = 0.1

_SPLIT_FOLDERS: dict[SplitName, tuple[str, ...]] = {
    "train": ("train",),
    "valid": ("valid", "val", "validation"),
    "test": ("test",),
}


@dataclass(frozen=True)
class PictureFile:
    """A file that may be a picture.

    Args:
        path: where it is.
        name: path relative to its split's folder, with "/"; may hold bytes that are no UTF-8.
    """

    path: Path
    name: str

    @property
    def class_name(self) -> str:
        """First folder of the name; empty when the file lies in no folder."""
        return self.name.split("/")[0] if "/" in self.name else ""


def picture_folder(root: Path) -> Path:
    """The folder that is searched: `images` in the data root, or else the data root itself."""
    images = root / "images"
    return images if images.is_dir() else root


def split_folders(folder: Path) -> dict[SplitName, Path]:
    """Folders of the splits that a folder of pictures comes with.

    Returns:
        train and whichever of valid (also val, validation) and test there are; only train, and
        that the folder itself, when it is not split.

    Raises:
        DataError: there is a folder for valid or test, but none for train.
        DataError: valid has more than one folder.
    """
    found: dict[SplitName, Path] = {}
    for split, names in _SPLIT_FOLDERS.items():
        present = [folder / name for name in names if (folder / name).is_dir()]
        if len(present) > 1:
            listed = ", ".join(path.name for path in present)
            raise DataError(f"{printable_name(folder)} has {listed}: keep one of these folders")
        if present:
            found[split] = present[0]
    if not found:
        return {"train": folder}
    if "train" not in found:
        listed = ", ".join(path.name for path in found.values())
        raise DataError(
            f"{printable_name(folder)} has a folder {listed} but no folder train: add train, or "
            "rename the folder so that its pictures are split by themselves"
        )
    return found


def find_files(folder: Path) -> list[PictureFile]:
    """All files below a folder, links followed, hidden ones (a leading dot) left out.

    Returns:
        Files in the byte order of their names, the same on every system.
    """
    files = []
    seen = set()

    def refuse(error: OSError) -> None:  # by default such a folder would vanish without a word
        if not isinstance(error, FileNotFoundError):
            raise DataError(f"{printable_name(error.filename)}: cannot be read: {error.strerror}")

    for place, folders, names in os.walk(folder, followlinks=True, onerror=refuse):
        real = os.path.realpath(place)
        if real in seen:  # a link back to a folder above would never end
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(place, name)
            if not name.startswith(".") and path.is_file():
                files.append(PictureFile(path, path.relative_to(folder).as_posix()))
    return sorted(files, key=lambda file: os.fsencode(file.name))


def carve_splits(
    files: Sequence[PictureFile], missing: Sequence[SplitName], *, by_class: bool
) -> list[SplitName]:
    """Take the splits that have no folder out of the training files.

    Each missing split gets a tenth, by the sha256 of the file's name: so a file keeps its split
    when others come or go. Two rules for small sets come after that. Training keeps at least one
    picture (of each class). A split that is still empty gets one picture from the split that
    has most (two or more): the one of the largest hash.

    Args:
        files: the files of train; each name once.
        missing: splits to take out: of "valid" and "test" those that have no folder.
        by_class: files belong to classes.

    Returns:
        The split of each file.
    """
    positions = [name_position(file.name) for file in files]
    groups = [file.class_name if by_class else "" for file in files]
    ordered = sorted(range(len(files)), key=lambda i: positions[i])
    splits: list[SplitName] = ["train"] * len(files)
    for i, position in enumerate(positions):
        for number, name in enumerate(reversed(missing), start=1):
            if position >= 1 - number * HELD_OUT_SHARE:
                splits[i] = name
                break
    kept = {groups[i] for i in ordered if splits[i] == "train"}
    for i in ordered:
        if groups[i] not in kept:
            splits[i] = "train"
            kept.add(groups[i])
    for name in missing:
        if name not in splits:
            _give_one(name, splits, groups, ordered)
    return splits


def _give_one(
    name: SplitName, splits: list[SplitName], groups: Sequence[str], ordered: Sequence[int]
) -> None:
    """Move one picture to an empty split, if another split can spare one."""
    sizes = Counter(splits)
    in_training = Counter(
        group for group, split in zip(groups, splits, strict=True) if split == "train"
    )
    for donor, size in sizes.most_common():
        for i in reversed(ordered):
            can_go = donor != "train" or in_training[groups[i]] > 1
            if size > 1 and splits[i] == donor and can_go:
                splits[i] = name
                return
