"""Pictures of one's own: any folder of picture files.

Letters: n pictures, S image side.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from damcha_core.data.augment import Augment
from damcha_core.data.image_data import ImageData, ImageSplit
from damcha_core.data.notify import Notify, no_notice
from damcha_core.data.picture import PictureError, decode_rgb, quiet_pillow
from damcha_core.data.picture_files import (
    PictureFile,
    SplitName,
    carve_splits,
    find_files,
    picture_folder,
    split_folders,
)
from damcha_core.errors import DataError
from damcha_core.files import printable_name

MAX_BYTES = 8 * 2**30
NAMED_FILES = 5


@dataclass(frozen=True)
class _Pictures:
    """Files that could be read, and their pictures uint8 (n, 3, S, S)."""

    files: Sequence[PictureFile]
    images: Tensor

    def take(self, ids: Sequence[int]) -> _Pictures:
        if len(ids) == len(self.files):
            return self
        return _Pictures([self.files[i] for i in ids], self.images[torch.tensor(ids).long()])


def load_folder(
    *,
    root: str | Path,
    image_size: int = 32,
    verify: bool = True,
    classes: bool = False,
    notify: Notify = no_notice,
) -> ImageData:
    """Read a folder of pictures; files that are no pictures are skipped, named and counted.

    Pictures are looked for in `images` in the data root or, without that, in the root itself.
    Folders train, valid (val, validation) and test there are the splits. A split that has no
    folder is taken out of train, or of everything, as `carve_splits` says. With classes the
    first folder inside a split names the class.

    Args:
        root: the data root.
        image_size: side of the pictures in pixels (see `open_rgb`).
        verify: not used, pictures have no published checksums.
        classes: one folder a class.
        notify: told how many files are decoded.

    Raises:
        DataError: the folder is missing or holds no files.
        DataError: its splits make no sense (see `split_folders`).
        DataError: classes are wanted and no file lies in a folder of its class.
        DataError: all pictures together need more memory than MAX_BYTES.
        DataError: a split is left without a picture.
        DataError: fewer than two classes, or a class that train does not have.
    """
    folder = picture_folder(Path(root).expanduser())
    found = {split: find_files(place) for split, place in split_folders(folder).items()}
    if not any(found.values()):
        raise DataError(_nothing_there(folder, classes))
    notices = []
    if classes:
        notices += _leave_out_classless(found, folder)
    n_files = sum(len(files) for files in found.values())
    _check_memory(n_files, image_size)
    pictures, failures = _decode_all(found, image_size, notify)
    if failures:
        notices.append(_skipped(failures, n_files, folder))
    pictures = _complete(pictures, classes)
    for split, part in pictures.items():
        if not part.files:
            raise DataError(_too_few(folder, split, n_files, notices))
    class_names = _class_names(pictures, folder) if classes else ()

    splits = {split: _split(part, class_names, folder) for split, part in pictures.items()}
    return ImageData(
        train=splits["train"],
        valid=splits["valid"],
        test=splits["test"],
        class_names=tuple(printable_name(name) for name in class_names),
        augment=Augment(max_shift=image_size // 8, flip=True),
        notices=tuple(notices),
    )


def _leave_out_classless(found: dict[SplitName, list[PictureFile]], folder: Path) -> list[str]:
    outside = [file.path for files in found.values() for file in files if not file.class_name]
    for split, files in found.items():
        found[split] = [file for file in files if file.class_name]
    if not outside:
        return []
    left_out = f"{len(outside)} files in no class folder: {_listed(outside, folder)}"
    if not any(found.values()):
        raise DataError(
            f"{printable_name(folder)} has {left_out}. Classification needs one folder a class; "
            "the task images trains on pictures without classes"
        )
    return [f"left out {left_out}"]


def _check_memory(n_files: int, image_size: int) -> None:
    needed = n_files * 3 * image_size**2
    if needed > MAX_BYTES:
        raise DataError(
            f"{n_files:,} pictures at data.image_size = {image_size} need {needed / 2**30:.1f} GiB "
            f"of memory, more than the {MAX_BYTES / 2**30:.0f} GiB allowed: choose a smaller "
            "data.image_size or fewer pictures"
        )


def _decode_all(
    found: dict[SplitName, list[PictureFile]], image_size: int, notify: Notify
) -> tuple[dict[SplitName, _Pictures], list[PictureError]]:
    pictures: dict[SplitName, _Pictures] = {}
    failures: list[PictureError] = []
    # Pillow decodes outside of Python's lock, so that threads help.
    n_threads = min(8, os.cpu_count() or 1)
    with quiet_pillow(), ThreadPoolExecutor(n_threads) as pool:
        for split, files in found.items():
            images = torch.empty(len(files), 3, image_size, image_size, dtype=torch.uint8)
            decode = partial(_decode_into, images, files)
            kept = []
            for i, failure in enumerate(pool.map(decode, range(len(files)))):
                if failure is None:
                    kept.append(i)
                else:
                    failures.append(failure)
                notify(f"reading pictures ({split})", i + 1, len(files))
            pictures[split] = _Pictures(files, images).take(kept)
    return pictures, failures


def _decode_into(images: Tensor, files: Sequence[PictureFile], i: int) -> PictureError | None:
    """Read file i into its place; give the error back, so that the other files go on."""
    try:
        images[i] = decode_rgb(files[i].path, images.shape[-1])
    except PictureError as error:
        return error
    return None


def _complete(pictures: dict[SplitName, _Pictures], classes: bool) -> dict[SplitName, _Pictures]:
    """All three splits: those without a folder are carved out of train."""
    names: tuple[SplitName, ...] = ("train", "valid", "test")
    missing = [name for name in names if name not in pictures]
    pool = pictures["train"]
    splits = carve_splits(pool.files, missing, by_class=classes)
    return {
        name: pool.take([i for i, split in enumerate(splits) if split == name])
        if name in ("train", *missing)
        else pictures[name]
        for name in names
    }


def _class_names(pictures: dict[SplitName, _Pictures], folder: Path) -> list[str]:
    classes = {split: {file.class_name for file in part.files} for split, part in pictures.items()}
    for split, names in classes.items():
        extra = sorted(names - classes["train"])
        if extra:
            listed = ", ".join(printable_name(name) for name in extra[:NAMED_FILES])
            raise DataError(
                f"{printable_name(folder)}: {split} has {len(extra)} classes that train does not "
                f"have ({listed}): add training pictures of them or take their folders out"
            )
    class_names = sorted(classes["train"], key=os.fsencode)
    if len(class_names) < 2:
        raise DataError(
            f"{printable_name(folder)}: classification needs at least two classes, there is "
            f"only {printable_name(class_names[0])}: put each class into a folder of its own"
        )
    return class_names


def _split(part: _Pictures, class_names: Sequence[str], folder: Path) -> ImageSplit:
    labels = None
    if class_names:
        numbers = {name: number for number, name in enumerate(class_names)}
        labels = torch.tensor([numbers[file.class_name] for file in part.files])
    names = tuple(_shown(file.path, folder) for file in part.files)
    return ImageSplit(part.images, labels, peak=255, names=names)


def _shown(path: Path, folder: Path) -> str:
    return printable_name(path.relative_to(folder).as_posix())


def _listed(paths: Sequence[Path], folder: Path) -> str:
    listed = ", ".join(_shown(path, folder) for path in paths[:NAMED_FILES])
    return listed + (", ..." if len(paths) > NAMED_FILES else "")


def _skipped(failures: Sequence[PictureError], n_files: int, folder: Path) -> str:
    listed = ", ".join(
        f"{_shown(Path(failure.path), folder)} ({failure.reason})"
        for failure in failures[:NAMED_FILES]
    )
    more = ", ..." if len(failures) > NAMED_FILES else ""
    return f"skipped {len(failures)} of {n_files} files that cannot be read: {listed}{more}"


def _nothing_there(folder: Path, classes: bool) -> str:
    where = printable_name(folder.absolute())
    problem = "holds no picture files" if folder.is_dir() else "does not exist"
    layout = "one folder a class" if classes else "any subfolders"
    instead = "digits-cls" if classes else "digits"
    return (
        f"no pictures: {where} {problem}. Put picture files there ({layout}; with or without "
        "train/, valid/ and test/), or point data.root or DAMCHA_DATA at the folder that has "
        f"them.\nThis runs today, on built-in data: damcha train --task {instead}"
    )


def _too_few(folder: Path, split: SplitName, n_files: int, notices: Sequence[str]) -> str:
    why = f" ({'; '.join(notices)})" if notices else ""
    return (
        f"{printable_name(folder)}: no picture for {split}, of {n_files} files{why}. Add "
        "pictures: train, valid and test need at least one each"
    )
