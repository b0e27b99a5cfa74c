"""CIFAR-10: its layout, its splits, its checksums, and what is said when it is not there."""

from __future__ import annotations

import hashlib
import pickle
import socket
import time

import numpy as np
import pytest
import torch
import torchvision

from damcha_core.data import cifar10
from damcha_core.data.batch_file import read_batch_file
from damcha_core.data.cifar10 import load_cifar10, published_checksums, valid_count
from damcha_core.data.cifar_published import Published
from damcha_core.errors import DataError
from damcha_core.files import md5_of

BASE = "cifar-10-batches-py"


def change(root, name, **entries):
    path = root / BASE / name
    content = pickle.loads(path.read_bytes(), encoding="bytes")
    content.update({key.encode(): value for key, value in entries.items()})
    path.write_bytes(pickle.dumps(content, 2))


def publish(root, monkeypatch):
    """Let the checksums of the files here be the published ones."""

    def md5(name):
        return hashlib.md5((root / BASE / name).read_bytes()).hexdigest()

    monkeypatch.setattr(Published, "train_list", [[n, md5(n)] for n, _ in Published.train_list])
    monkeypatch.setattr(Published, "test_list", [["test_batch", md5("test_batch")]])
    monkeypatch.setattr(Published, "meta", {**Published.meta, "md5": md5("batches.meta")})


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*_arguments, **_options):
        raise OSError("sockets are blocked in this test")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_checksums_are_the_published_ones():
    assert published_checksums() == {
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        "test_batch": "40351d587109b95175f43aff81a1287e",
        "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
    }


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_pictures_and_labels(tmp_path, write_batches, protocol):
    write_batches(tmp_path, protocol=protocol)
    data = load_cifar10(root=tmp_path, verify=False)
    assert [len(part) for part in (data.train, data.valid, data.test)] == [36, 4, 5]
    stored = [
        pickle.loads((tmp_path / BASE / f"data_batch_{i}").read_bytes(), encoding="bytes")
        for i in range(1, 6)
    ]
    images = np.concatenate([batch[b"data"] for batch in stored]).reshape(-1, 3, 32, 32)
    assert torch.equal(torch.cat([data.train.images, data.valid.images]), torch.tensor(images))
    labels = [label for batch in stored for label in batch[b"labels"]]
    assert torch.cat([data.train.labels, data.valid.labels]).tolist() == labels
    assert data.class_names[3] == "cat"
    assert data.train.peak == 255
    assert (data.augment.max_shift, data.augment.flip, data.notices) == (4, True, ())


def test_same_pictures_as_torchvision(cifar_root, monkeypatch):
    for path in (cifar_root / BASE).iterdir():  # text keys, as torchvision reads them
        text = read_batch_file(path)
        if "label_names" in text:
            text["label_names"] = [name.decode() for name in text["label_names"]]
        path.write_bytes(pickle.dumps(text, 2))
    publish(cifar_root, monkeypatch)
    data = load_cifar10(root=cifar_root)
    sums = {path.name: md5_of(path) for path in (cifar_root / BASE).iterdir()}
    peer = torchvision.datasets.CIFAR10
    monkeypatch.setattr(peer, "train_list", [[n, sums[n]] for n, _ in peer.train_list])
    monkeypatch.setattr(peer, "test_list", [["test_batch", sums["test_batch"]]])
    monkeypatch.setattr(peer, "meta", {**peer.meta, "md5": sums["batches.meta"]})
    theirs = peer(cifar_root, train=False)
    assert np.array_equal(data.test.images.permute(0, 2, 3, 1).numpy(), theirs.data)
    assert data.test.labels.tolist() == theirs.targets
    assert list(data.class_names) == theirs.classes


def test_published_values_are_torchvisions():
    names = ("url", "filename", "tgz_md5", "base_folder", "train_list", "test_list", "meta")
    for name in names:
        ours, theirs = getattr(Published, name), getattr(torchvision.datasets.CIFAR10, name)
        if name.endswith("_list"):
            theirs = [tuple(entry) for entry in theirs]
        assert ours == theirs, name


def test_published_length_holds_out_5000():
    assert valid_count(50_000) == 5_000
    assert valid_count(49_999) == 4_999
    assert valid_count(9) == 1


@pytest.mark.parametrize("keys", ["text", "array labels", "number labels"])
def test_files_of_other_writers(cifar_root, keys):
    expected = load_cifar10(root=cifar_root, verify=False)
    for path in (cifar_root / BASE).iterdir():
        content = read_batch_file(path)
        if keys != "text":
            if "labels" in content:
                labels = np.array(content["labels"], dtype=">i4" if "array" in keys else "<i8")
                content["labels"] = labels if "array" in keys else list(labels)
            content = {key.encode(): value for key, value in content.items()}
        path.write_bytes(pickle.dumps(content, 2))
    found = load_cifar10(root=cifar_root, verify=False)
    assert torch.equal(found.train.images, expected.train.images)
    assert torch.equal(found.train.labels, expected.train.labels)


def test_columns_first(cifar_root):
    change(cifar_root, "test_batch", data=np.asfortranarray(np.ones((5, 3072), np.uint8)))
    assert load_cifar10(root=cifar_root, verify=False).test.images.eq(1).all()


def test_meta_may_be_missing_without_verify(cifar_root):
    (cifar_root / BASE / "batches.meta").unlink()
    assert load_cifar10(root=cifar_root, verify=False).class_names[9] == "truck"


def test_a_read_only_copy_is_used_as_it_is(cifar_root, monkeypatch, no_network):
    publish(cifar_root, monkeypatch)
    folders = (cifar_root / BASE, cifar_root)
    for path in (*(cifar_root / BASE).iterdir(), *folders):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = [(folder.stat().st_mtime_ns, sorted(folder.iterdir())) for folder in folders]
    try:
        assert len(load_cifar10(root=cifar_root).train) == 36
        assert before == [(f.stat().st_mtime_ns, sorted(f.iterdir())) for f in folders]
    finally:
        for folder in folders:
            folder.chmod(0o755)


def refused(root, match, **options):
    with pytest.raises(DataError, match=match) as caught:
        load_cifar10(root=root, **options)
    assert len(str(caught.value).splitlines()) <= 2
    return str(caught.value)


def test_missing_without_network(tmp_path, no_network):
    start = time.monotonic()
    message = refused(tmp_path, "sockets are blocked")
    assert time.monotonic() - start < 5
    assert str(tmp_path / BASE) in message
    assert "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz" in message
    assert "damcha train --task digits" in message
    assert list(tmp_path.iterdir()) == []
    assert "--task digits-cls" in refused(tmp_path, "CIFAR-10", classes=True)


def test_other_checksums_are_refused_and_the_way_out_named(cifar_root):
    refused(cifar_root, r"data_batch_1 is not the published file.*data\.verify = false")


def test_gaps_in_own_data_are_not_filled(cifar_root, no_network):
    (cifar_root / BASE / "data_batch_4").unlink()
    refused(cifar_root, "lacks data_batch_4", verify=False)


def test_some_published_files_missing(cifar_root, no_network):
    (cifar_root / BASE / "data_batch_4").unlink()
    refused(cifar_root, "data_batch_4 were looked for in")


def test_another_size_is_refused(cifar_root):
    refused(cifar_root, r"data\.image_size = 32", image_size=64)


@pytest.mark.parametrize(
    ("entries", "match"),
    [
        ({"data": [1, 2]}, "data must be an array of bytes"),
        ({"data": np.zeros((5, 3072), np.int64)}, "data must be an array of bytes"),
        ({"data": np.zeros(3072, np.uint8)}, "data must be an array of bytes"),
        ({"data": np.zeros((5, 100), np.uint8)}, r"n x 3072 .* not \(5, 100\)"),
        ({"data": np.zeros((0, 3072), np.uint8)}, "at least one row"),
        ({"labels": [1, 2]}, "2 labels for 5 pictures"),
        ({"labels": "cats"}, "whole numbers"),
        ({"labels": [0, 1, 2, 3, 4.5]}, "whole numbers"),
        ({"labels": [0, 1, 2, 3, 10]}, "label 10 is none of the classes 0 to 9"),
        ({"labels": [0, 1, 2, 3, -1]}, "label -1 is none"),
        ({"filenames": [b"x" * 10**6]}, "much larger than its 5 pictures"),
    ],
)
def test_contents_that_do_not_fit(cifar_root, entries, match):
    change(cifar_root, "test_batch", **entries)
    message = refused(cifar_root, match, verify=False)
    assert str(cifar_root / BASE / "test_batch") in message


@pytest.mark.parametrize(
    ("names", "match"), [(None, "no list label_names"), ([b"a"], "no list"), ([1, 2], "be text")]
)
def test_meta_that_does_not_fit(cifar_root, names, match):
    change(cifar_root, "batches.meta", label_names=names)
    refused(cifar_root, match, verify=False)


def test_one_training_picture_is_too_few():
    with pytest.raises(DataError, match="1 training pictures"):
        valid_count(1)


def test_unreadable_file(cifar_root, monkeypatch):
    def fail(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(cifar10, "md5_of", fail)
    refused(cifar_root, "data_batch_1 cannot be read: Permission denied")
