"""Where CIFAR-10 is published, and the checksums of its files.

The names are those of torchvision's CIFAR10 class, and a test holds the values against it.
Importing that class takes seconds, which a run without the data should not spend.
"""

from __future__ import annotations

from typing import ClassVar


class Published:
    """Address, archive, and (name, md5) of each file of the python layout."""

    url = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
    filename = "cifar-10-python.tar.gz"
    tgz_md5 = "c58f30108f718f92721af3b95e74349a"
    base_folder = "cifar-10-batches-py"
    train_list: ClassVar[list[tuple[str, str]]] = [
        ("data_batch_1", "c99cafc152244af753f735de768cd75f"),
        ("data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"),
        ("data_batch_3", "54ebc095f3ab1f0389bbae665268c751"),
        ("data_batch_4", "634d18415352ddfa80567beed471001a"),
        ("data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"),
    ]
    test_list: ClassVar[list[tuple[str, str]]] = [
        ("test_batch", "40351d587109b95175f43aff81a1287e")
    ]
    meta: ClassVar[dict[str, str]] = {
        "filename": "batches.meta",
        "key": "label_names",
        "md5": "5ff9c542aee3614f3951f8cda6e48888",
    }
