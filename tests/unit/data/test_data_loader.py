"""The same batches whatever makes them, and plain words when a worker dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.data import Dataset

from damcha_core.data.augment import Augment
from damcha_core.data.image_data import ImageSplit
from damcha_core.data.loader import _begin_work, make_loader
from damcha_core.data.order import batches, epoch_order
from damcha_core.data.reconstruction_dataset import ReconstructionDataset
from damcha_core.errors import DataError

N = 23


class Probe(Dataset):
    """Answers with facts of the process that makes the batch, or ends it."""

    def __init__(self, action=None):
        self.action = action

    def __getitems__(self, keys):
        if self.action is not None and keys[0][1] == 2:
            self.action()
        ignored = [signal.getsignal(s) == signal.SIG_IGN for s in (signal.SIGINT, signal.SIGTERM)]
        return {"pid": torch.tensor(os.getpid()), "ignored": torch.tensor(ignored)}


def die():
    os.kill(os.getpid(), signal.SIGBUS)


def fail():
    raise KeyError("no such picture")


def no_shared_memory():
    raise RuntimeError("unable to allocate shared memory(shm) for file </torch_1>: No space left")


def keys_of(n):
    return [[(0, i)] for i in range(n)]


def collected(dataset, keys, workers):
    return list(make_loader(dataset, keys, workers))


@pytest.fixture(scope="module")
def dataset():
    images = torch.arange(N * 3 * 64).view(N, 3, 8, 8).to(torch.uint8)
    return ReconstructionDataset(
        ImageSplit(images),
        patch_size=2,
        mask_ratio=0.5,
        seed=4,
        training=True,
        augment=Augment(2, flip=True),
    )


@pytest.fixture(scope="module")
def keys():
    return [[(1, i) for i in ids] for ids in batches(epoch_order(4, 1, N), 0, 4)]


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_number_of_workers_changes_nothing(dataset, keys, workers):
    made = collected(dataset, keys, workers)
    assert len(made) == len(keys) == 6
    for batch, batch_keys in zip(made, keys, strict=True):
        expected = dataset.__getitems__(batch_keys)
        assert all(torch.equal(batch[name], expected[name]) for name in expected)
    assert len(made[-1]["ids"]) == 3


def test_keys_may_come_one_by_one(dataset, keys):
    made = collected(dataset, iter(keys), 1)
    assert [batch["ids"].tolist() for batch in made] == [[i for _, i in row] for row in keys]


@pytest.mark.parametrize("workers", [0, 1])
def test_global_random_state_is_left_alone(dataset, keys, workers):
    before = torch.get_rng_state()
    collected(dataset, keys, workers)
    assert torch.equal(before, torch.get_rng_state())


def test_workers_survive_the_signals_that_stop_a_run():
    loader = make_loader(Probe(), keys_of(30), 1)
    first = next(loader)
    assert first["ignored"].all()
    assert int(first["pid"]) != os.getpid()
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(int(first["pid"]), number)
    assert len(list(loader)) == 29


def test_workers_end_with_an_abandoned_loader():
    loader = make_loader(Probe(), keys_of(30), 2)
    next(loader)
    assert len(multiprocessing.active_children()) == 2
    loader.close()
    assert multiprocessing.active_children() == []


def test_workers_end_with_a_failed_loader_though_its_traceback_is_held():
    with pytest.raises(KeyError) as held:
        collected(Probe(fail), keys_of(5), 2)
    assert multiprocessing.active_children() == []
    del held


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux alone")
@pytest.mark.parametrize(("orphaned", "code"), [(False, 0), (True, 1)])
def test_a_worker_whose_trainer_is_gone_when_it_begins_ends_at_once(orphaned, code):
    trainer = os.getppid() if orphaned else os.getpid()
    worker = multiprocessing.get_context("fork").Process(target=_begin_work, args=(trainer, 0))
    worker.start()
    worker.join(timeout=60)
    assert worker.exitcode == code


def test_process_ends_with_an_unfinished_loader():
    program = (
        "import test_data_loader as t, sys\n"
        "loader = t.make_loader(t.Probe(), t.keys_of(30), 2)\n"
        "sys.held = [loader, next(loader)]\n"
        "raise ValueError('a defect')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.strip().endswith("ValueError: a defect")


# torch reports a dead worker from a signal handler, which can interrupt a clean-up of Python's own;
# the report is then printed there, and comes again when the next batch is asked for.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("action", [die, no_shared_memory])
def test_a_dead_worker_is_explained(action):
    with pytest.raises(DataError, match=r"data\.workers = 0 \(now 1\)"):
        collected(Probe(action), keys_of(5), 1)


@pytest.mark.parametrize("workers", [0, 1])
def test_defects_keep_their_type(workers):
    with pytest.raises(KeyError, match="no such picture"):
        collected(Probe(fail), keys_of(5), workers)


def test_runtime_errors_of_this_process_keep_their_type():
    with pytest.raises(RuntimeError, match="shm"):
        collected(Probe(no_shared_memory), keys_of(5), 0)


def test_negative_workers_are_refused():
    with pytest.raises(ValueError, match=r"data\.workers"):
        make_loader(Probe(), [], -1)


class BlockedSignals(Dataset):
    """Each sample says whether its process holds SIGTERM and SIGINT back."""

    def __getitems__(self, keys):
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, set())
        return {"held": torch.tensor({signal.SIGINT, signal.SIGTERM} <= blocked)}

    def __getitem__(self, key):
        return self.__getitems__([key])


def test_workers_are_born_deaf_to_the_signals_and_the_trainer_is_not():
    held = [bool(batch["held"]) for batch in make_loader(BlockedSignals(), keys_of(4), 2)]
    assert held == [True] * len(held)
    assert not any(bool(b["held"]) for b in make_loader(BlockedSignals(), keys_of(4), 0))
    assert not {signal.SIGINT, signal.SIGTERM} & signal.pthread_sigmask(signal.SIG_BLOCK, set())
