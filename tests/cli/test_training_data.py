"""`damcha train` on data that are missing, few, or partly unreadable."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import numpy as np
import pytest
from command_line import SMALL, damcha
from PIL import Image
from tiny_data import tiny_root, write_pictures

PATCHES = ("--set", "data.image_size=8", "--set", "model.patch_size=4")


def pictures(folder: Path, count: int) -> Path:
    folder.mkdir(parents=True)
    for i in range(count):
        pixels = np.random.default_rng(i).integers(0, 256, (9, 11, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.png")
    return folder


@pytest.mark.parametrize(
    ("task", "instead"), [("cifar10", "digits"), ("cifar10-cls", "digits-cls")]
)
def test_cifar10_without_data_and_network_says_what_to_do(task, instead, monkeypatch) -> None:
    def unreachable(*_arguments: object, **_options: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    for name in ("create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, unreachable)
    started = time.monotonic()
    answer = damcha("train", "--task", task)
    assert time.monotonic() - started < 10
    answer.refused(
        3,
        str(Path("data/cifar-10-batches-py").absolute()),
        "data.root or DAMCHA_DATA",
        f"damcha train --task {instead}",
    )
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("task", ["images", "images-cls"])
def test_pictures_that_are_missing_are_asked_for(task) -> None:
    answer = damcha("train", "--task", task, "--set", "data.root=nowhere")
    answer.refused(3, str(Path("nowhere").absolute()), "damcha train --task digits")
    assert list(Path().iterdir()) == []


def test_the_data_root_of_the_environment_is_used(monkeypatch) -> None:
    monkeypatch.setenv("DAMCHA_DATA", str(tiny_root()))
    flags = ("--task", "cifar10", "--set", "data.verify=false", "--epochs", 1)
    answer = damcha("train", *SMALL, *flags, "--out", "run", "--json")
    assert answer.json()["metrics"]["psnr"]["n"] == 5


def test_three_pictures_train_with_a_batch_of_64() -> None:
    root = pictures(Path("three"), 3)
    flags = ("--task", "images", "--set", f"data.root={root}", *PATCHES, "--epochs", 2)
    result = damcha("train", *SMALL, *flags, "--batch-size", 64, "--out", "run", "--json").json()
    assert (result["steps"], result["epochs"]) == (2, 2)
    assert result["metrics"]["psnr"]["n"] == 1
    lines = Path("run/metrics.jsonl").read_text(encoding="utf-8")
    assert lines.count('"samples": 1,') == 4


def test_a_last_batch_of_one_is_trained_on() -> None:
    root = pictures(Path("some"), 12)
    flags = ("--task", "images", "--set", f"data.root={root}", *PATCHES, "--epochs", 1)
    plan = damcha("train", *SMALL, *flags, "--dry-run", "--json").json()
    batch = plan["samples"]["train"] - 1
    result = damcha("train", *SMALL, *flags, "--batch-size", batch, "--out", "run", "--json").json()
    assert result["steps"] == 2


def test_bad_files_are_named_once() -> None:
    root = pictures(Path("mixed"), 6)
    (root / "empty.png").touch()
    (root / "half.png").write_bytes((root / "0.png").read_bytes()[:70])
    (root / "note.txt").write_text("hello", encoding="utf-8")
    (root / ".DS_Store").write_bytes(b"\0" * 9)
    flags = ("--task", "images", "--set", f"data.root={root}", *PATCHES, "--epochs", 3)
    answer = damcha("train", *SMALL, *flags, "--out", "run").done()
    for name in ("empty.png", "half.png", "note.txt"):
        assert answer.err.count(name) == 1
    assert answer.err.count("skipped 3 of 9 files") == 1


def test_folders_of_classes_train_a_classifier() -> None:
    write_pictures(Path("data"), side=8)
    flags = ("--task", "images-cls", "--set", "data.root=data/images", *PATCHES)
    result = damcha("train", *SMALL, *flags, "--epochs", 2, "--out", "run", "--json").json()
    assert list(result["metrics"]) == ["top1", "top5", "loss"]
    assert result["details"]["classes"] == 2
    assert result["metrics"]["top1"]["n"] == 6


def test_pictures_without_classes_are_refused_for_classification() -> None:
    root = pictures(Path("flat"), 4)
    answer = damcha("train", "--task", "images-cls", "--set", f"data.root={root}")
    answer.refused(3, "no class folder", most_lines=1)
