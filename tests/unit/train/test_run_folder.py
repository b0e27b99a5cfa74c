"""Claiming a folder for a run, and reading the small files in it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
import torch
from tiny_runs import tiny_config

from damcha_core.config.change import with_values
from damcha_core.errors import CheckpointError, DiskError, UsageError
from damcha_core.tasks.image_task import ImageFacts
from damcha_core.train.run_folder import RunFolder
from damcha_core.train.tensor_file import read_tensors

FACTS = ImageFacts(3, 32, ("a", "b"), {"train": 4, "valid": 1, "test": 1}, {"train": "1f"})


def test_a_named_folder_is_taken_as_it_is(tmp_path):
    assert RunFolder.for_new_run(tiny_config(tmp_path / "x")).path == tmp_path / "x"
    assert list(tmp_path.iterdir()) == []


def test_a_name_goes_below_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = with_values(tiny_config(tmp_path), {"run.out": "", "run.name": "mine"})
    assert RunFolder.for_new_run(config).path == Path("runs/mine")
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "run.toml").touch()
    with pytest.raises(UsageError, match=r"runs/mine already holds a run.*--resume runs/mine"):
        RunFolder.for_new_run(config)


def test_without_a_name_the_next_free_number_is_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = with_values(tiny_config(tmp_path), {"run.out": ""})
    for expected in ("cifar10-damcha-s3", "cifar10-damcha-s3-2", "cifar10-damcha-s3-3"):
        folder = RunFolder.for_new_run(config)
        assert folder.path == Path("runs") / expected
        folder.path.mkdir(parents=True)


@pytest.mark.parametrize("what", ["run.toml", "checkpoints"])
def test_a_folder_that_holds_a_run_is_refused(tmp_path, what):
    (tmp_path / "x" / what).mkdir(parents=True)
    with pytest.raises(UsageError, match="already holds a run") as caught:
        RunFolder.for_new_run(tiny_config(tmp_path / "x"))
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("inside", ["", "below", "far/below"])
def test_a_file_in_the_way_is_named(tmp_path, inside):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"file is a file, not a folder"):
        RunFolder.for_new_run(tiny_config(tmp_path / "file" / inside))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc, where nobody may write")
def test_a_place_that_cannot_be_written_is_found_before_training():
    """P67: root ignores file modes, so the test writes where nobody can."""
    with pytest.raises(UsageError, match=r"--out /proc/x: cannot write there"):
        RunFolder.for_new_run(tiny_config(Path("/proc/x")))


@pytest.mark.parametrize("name", ["x" * 300, "x" * 300 + "/y", "a/" * 3000])
def test_a_name_that_no_disk_takes_is_refused(tmp_path, name):
    with pytest.raises(UsageError, match="cannot be used: File name too long"):
        RunFolder.for_new_run(tiny_config(tmp_path / name))


def test_a_claim_writes_the_settings_first_and_holds_the_folder(tmp_path):
    config = tiny_config(tmp_path / "x")
    folder = RunFolder.for_new_run(config)
    with folder.claim(config):
        assert folder.read_config() == config
        with pytest.raises(UsageError, match="another process is training"):
            take(folder)
    with pytest.raises(UsageError, match="already holds a run"), folder.claim(config):
        raise AssertionError("claimed twice")


def take(folder: RunFolder) -> None:
    with folder.lock():
        raise AssertionError("locked twice")


def test_of_two_claims_at_once_one_gets_the_folder(tmp_path):
    config, results = tiny_config(tmp_path / "x"), []
    barrier = threading.Barrier(2)

    def claim() -> None:
        barrier.wait()
        try:
            with RunFolder(tmp_path / "x").claim(config):
                results.append("mine")
        except UsageError as error:
            results.append(str(error))

    threads = [threading.Thread(target=claim) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results)[1] == "mine"
    assert len(results) == 2


def test_a_lock_is_let_go(tmp_path):
    folder = RunFolder(tmp_path)
    for _ in range(2):
        with folder.lock():
            pass
    with pytest.raises(ValueError, match="ours"), folder.lock():
        raise ValueError("ours")
    with folder.lock():
        pass


def test_a_claim_that_fails_is_a_disk_error(tmp_path, monkeypatch):
    def full(*_arguments, **_options):
        raise OSError(28, "No space left on device")

    config = tiny_config(tmp_path / "x")
    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(DiskError), RunFolder(tmp_path / "x").claim(config):
        raise AssertionError("claimed")


@pytest.mark.parametrize("name", ["nothing", "file", "folder"])
def test_only_a_run_folder_is_opened(tmp_path, name):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(CheckpointError, match=f"{name}: not a run folder") as caught:
        RunFolder.open(tmp_path / name)
    assert caught.value.exit_code == 4


def test_facts_come_back(tmp_path):
    folder = RunFolder(tmp_path)
    folder.store_facts(FACTS)
    assert folder.read_facts(ImageFacts) == FACTS


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "{",
        "[" * 100_000,
        '{"channels": 3, "image_size": 32, "samples": {}}',
        '{"channels": "3", "image_size": 32, "class_names": [], "samples": {}}',
        '{"channels": 0, "image_size": 32, "class_names": [], "samples": {}}',
        '{"channels": 3, "image_size": 32, "class_names": [1], "samples": {}}',
        '{"channels": 3, "image_size": 32, "class_names": [], "samples": [1]}',
        '{"channels": 3, "image_size": 32, "class_names": [], "samples": {"train": 1.5}}',
        '{"channels": 3, "image_size": 32, "class_names": [], "samples": {}, "more": 1}',
        '{"channels": 3, "image_size": 32, "class_names": [], "samples": {}, "content": [1]}',
        '{"channels": 3, "image_size": 32, "class_names": [], "content": {"train": 1}}',
    ],
)
def test_damaged_facts_are_named(tmp_path, text):
    (tmp_path / "facts.json").write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"facts\.json: "):
        RunFolder(tmp_path).read_facts(ImageFacts)


def test_missing_files_are_named(tmp_path):
    folder = RunFolder(tmp_path)
    for read in (lambda: folder.read_facts(ImageFacts), folder.read_result):
        with pytest.raises(CheckpointError, match=r"\.json: missing or damaged"):
            read()


def test_every_start_is_kept(tmp_path):
    folder = RunFolder(tmp_path)
    assert folder.resumed_from() == ""
    folder.add_environment({"resumed_from": ""})
    folder.add_environment({"resumed_from": "step-00000004"})
    assert folder.resumed_from() == "step-00000004"


@pytest.mark.parametrize("text", ["{}", '{"starts": {}}', '{"starts": [1]}', "[]", "nothing"])
def test_a_damaged_environment_is_named(tmp_path, text):
    (tmp_path / "environment.json").write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"environment\.json"):
        RunFolder(tmp_path).add_environment({})


def test_the_mean_picture_is_kept_with_the_usual_permissions(tmp_path):
    folder = RunFolder(tmp_path)
    folder.store_mean_picture(torch.ones(1, 2, 2))
    assert read_tensors(folder.mean_picture_file)["mean_picture"].shape == (1, 2, 2)
    (tmp_path / "other").touch()
    assert folder.mean_picture_file.stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_sweep_takes_what_killed_processes_left(tmp_path):
    folder = RunFolder(tmp_path)
    (tmp_path / ".tmp-run.toml-12").touch()
    (tmp_path / ".tmpAb3xyz").touch()
    (tmp_path / "checkpoints" / ".tmp-step-00000001").mkdir(parents=True)
    (tmp_path / "notes.txt").touch()
    folder.sweep()
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["checkpoints", "notes.txt"]


def test_samples_have_a_folder_of_their_own(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path)
    assert folder.prepare_samples() == folder.prepare_samples() == tmp_path / "samples"

    def full(*_arguments, **_options):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(DiskError):
        folder.prepare_samples()
