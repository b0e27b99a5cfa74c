"""CIFAR-10: 60,000 photographs of 32 x 32 pixels in ten classes.

Source: Learning Multiple Layers of Features from Tiny Images, 2009
(https://www.cs.toronto.edu/~kriz/cifar.html). Letters: n pictures.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from damcha_core.data.augment import Augment
from damcha_core.data.batch_file import read_batch_file
from damcha_core.data.cifar_archive import fetch_files
from damcha_core.data.cifar_published import Published
from damcha_core.data.image_data import ImageData, ImageSplit
from damcha_core.data.notify import Notify, no_notice
from damcha_core.errors import DataError
from damcha_core.files import md5_of, printable_name

IMAGE_SIZE = 32
_PIXELS = 3 * IMAGE_SIZE**2
_PUBLISHED = 50_000
_PUBLISHED_VALID = 5_000
# Names and other small things a batch file may hold for each picture beside its pixels.
_EXTRA_BYTES = 512
_STANDARD_NAMES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)


def load_cifar10(
    *,
    root: str | Path,
    image_size: int = IMAGE_SIZE,
    verify: bool = True,
    classes: bool = False,
    notify: Notify = no_notice,
) -> ImageData:
    """Read CIFAR-10 in its python layout; get it first when it is not there.

    Train is the first 45,000 training pictures, valid the last 5,000 and test the test batch. A
    complete folder `cifar-10-batches-py` in the data root is read as it is and nothing is
    written. Files that are missing come from the archive in the data root or, without that,
    from the network.

    Args:
        root: the data root.
        image_size: must be 32.
        verify: each file must have its published md5, checked before it is read. False admits
            other files of the same layout and of any length; then valid is the last tenth of
            the training pictures (at least one), and batches.meta may be missing.
        classes: named in the advice alone; the pictures always have classes.
        notify: told about the bytes of a download.

    Raises:
        DataError: image_size is not 32.
        DataError: some of the files are missing (without verify).
        DataError: files are missing and cannot be had, see `fetch_files`.
        DataError: a file has another md5 than the published one (with verify).
        DataError: a file is no batch file, see `read_batch_file`, or its contents do not fit.
        DataError: fewer than two training pictures.
    """
    if image_size != IMAGE_SIZE:
        raise DataError(f"CIFAR-10 is 32 x 32 pixels: set data.image_size = 32, not {image_size}")
    root = Path(root).expanduser()
    folder = root / Published.base_folder
    _complete_folder(root, folder, verify, classes, notify)
    if verify:
        _check_files(folder)
    class_names = _read_class_names(folder / Published.meta["filename"])
    parts = [_read_pictures(folder / name, len(class_names)) for name, _ in Published.train_list]
    images = torch.cat([images for images, _ in parts])
    labels = torch.cat([labels for _, labels in parts])
    n_train = len(images) - valid_count(len(images))
    return ImageData(
        train=ImageSplit(images[:n_train], labels[:n_train]),
        valid=ImageSplit(images[n_train:], labels[n_train:]),
        test=ImageSplit(*_read_pictures(folder / Published.test_list[0][0], len(class_names))),
        class_names=class_names,
        augment=Augment(max_shift=4, flip=True),
    )


def published_checksums() -> dict[str, str]:
    """Published md5 of each file."""
    meta = Published.meta
    return dict([*Published.train_list, *Published.test_list, (meta["filename"], meta["md5"])])


def _complete_folder(root: Path, folder: Path, verify: bool, classes: bool, notify: Notify) -> None:
    needed = list(published_checksums())
    if not verify:
        needed.remove(Published.meta["filename"])
    missing = [name for name in needed if not (folder / name).is_file()]
    if not missing:
        return
    if not verify and len(missing) < len(needed):
        # Published files must not fill the gaps of someone's own data.
        raise DataError(f"{printable_name(folder.absolute())} lacks {', '.join(missing)}")
    try:
        fetch_files(root, missing, notify)
    except DataError as error:
        instead = "digits-cls" if classes else "digits"
        what = "its files" if len(missing) == len(needed) else ", ".join(missing)
        raise DataError(
            f"CIFAR-10: {what} were looked for in {printable_name(folder.absolute())} and are not "
            f"there; {error}. On a machine with network get {Published.url} and put it into "
            f"{printable_name(root.absolute())} as it is (or unpack it there), or point data.root "
            f"or DAMCHA_DATA at the folder that holds {Published.base_folder}.\n"
            f"This runs today, on built-in data: damcha train --task {instead}"
        ) from error


def _check_files(folder: Path) -> None:
    for name, published in published_checksums().items():
        path = folder / name
        try:
            found = md5_of(path)
        except OSError as error:
            raise DataError(f"{printable_name(path)} cannot be read: {error.strerror}") from error
        if found != published:
            raise DataError(
                f"{printable_name(path)} is not the published file: its md5 is {found}, not "
                f"{published}. Delete it to get it again; if it is data of your own in this "
                "layout, set data.verify = false"
            )


def valid_count(n_pictures: int) -> int:
    """How many of the last training pictures are held out for validation.

    Raises:
        DataError: there are fewer than two.
    """
    if n_pictures < 2:
        raise DataError(
            f"{n_pictures} training pictures in all of {Published.base_folder}; training and "
            "validation need at least one each"
        )
    return _PUBLISHED_VALID if n_pictures == _PUBLISHED else max(1, n_pictures // 10)


def _read_class_names(path: Path) -> tuple[str, ...]:
    if not path.exists():
        return _STANDARD_NAMES
    names = read_batch_file(path).get(Published.meta["key"])
    if not isinstance(names, list) or len(names) < 2:
        raise DataError(f"{printable_name(path)} holds no list label_names of two or more classes")
    if not all(isinstance(name, bytes | str) for name in names):
        raise DataError(f"{printable_name(path)}: label_names must be text")
    return tuple(printable_name(name) for name in names)


def _read_pictures(path: Path, n_classes: int) -> tuple[Tensor, Tensor]:
    """Pictures uint8 (n, 3, 32, 32) and labels int64 (n,) of one batch file."""
    batch = read_batch_file(path)
    name = printable_name(path)
    data, labels = batch.get("data"), batch.get("labels")
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2:
        raise DataError(f"{name}: data must be an array of bytes with a row of pixels a picture")
    if len(data) < 1 or data.shape[1] != _PIXELS:
        raise DataError(
            f"{name}: data must be n x {_PIXELS} with at least one row, not {data.shape}"
        )
    if path.stat().st_size > 2 * data.size + _EXTRA_BYTES * (len(data) + 256):
        raise DataError(f"{name}: the file is much larger than its {len(data)} pictures")
    images = torch.from_numpy(data.copy()).view(-1, 3, IMAGE_SIZE, IMAGE_SIZE)
    return images, _labels(labels, len(data), n_classes, name)


def _labels(labels: object, n_pictures: int, n_classes: int, name: str) -> Tensor:
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "ui":
        labels = labels.reshape(-1).tolist()
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise DataError(f"{name}: labels must be a list of whole numbers")
    if len(labels) != n_pictures:
        raise DataError(f"{name}: {len(labels)} labels for {n_pictures} pictures")
    wrong = [label for label in labels if not 0 <= label < n_classes]
    if wrong:
        raise DataError(f"{name}: label {wrong[0]} is none of the classes 0 to {n_classes - 1}")
    return torch.tensor(labels, dtype=torch.int64)
