"""Which processes train together, and what each of them trains on."""

from __future__ import annotations

import pytest
import torch

from damcha_core.data.text.token_batches import bucketed_batches
from damcha_core.errors import UsageError
from damcha_core.train.device import choose_device
from damcha_core.train.shares import Shares
from damcha_core.train.world import ALONE, World, joined_world, world_size

TORCHRUN = {
    "RANK": "1",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "2",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "1",
}


class Second(World):
    """The second of two processes, for what needs no other."""

    rank, size, local_rank = 1, 2, 1


@pytest.mark.parametrize("environment", [{}, {"RANK": "0", "WORLD_SIZE": "1"}])
def test_without_torchrun_and_with_one_process_nobody_else_is_asked(environment):
    assert joined_world(environment) is ALONE
    assert world_size(environment) == 1
    assert ALONE.leads


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE 'two': must be a whole number of at least 1"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE '0'"),
        ({"RANK": "-1"}, "RANK '-1'"),
        ({"RANK": "2"}, "RANK 2: must be below WORLD_SIZE 2"),
        ({"LOCAL_RANK": ""}, "LOCAL_RANK ''"),
        ({"RANK": None}, "WORLD_SIZE is set and RANK is not"),
        ({"MASTER_ADDR": None}, "MASTER_ADDR is not"),
        ({"MASTER_PORT": ""}, "MASTER_PORT is not"),
    ],
)
def test_an_incomplete_environment_is_refused_in_one_line(changes, message):
    environment = {k: v for k, v in {**TORCHRUN, **changes}.items() if v is not None}
    with pytest.raises(UsageError) as caught:
        joined_world(environment)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_process_agrees_with_itself():
    assert ALONE.sums(1.5, 2) == [1.5, 2]
    assert ALONE.sums_later(3)() == [3]
    assert ALONE.together(lambda: 4) == ALONE.in_turn(lambda: 4) == ALONE.from_lead(lambda: 4) == 4
    with pytest.raises(UsageError, match="mine"):
        ALONE.fail(UsageError("mine"))


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("batch_size", [1, 2, 7])
def test_every_sample_of_a_micro_batch_goes_to_one_process(size, batch_size):
    keys = [[(4, 10 * b + i) for i in range(batch_size)] for b in range(3)]
    shares = [Shares(keys, rank, size) for rank in range(size)]
    for place, wanted in enumerate(keys):
        dealt = [share[place] for share in shares if not share.stands_in(place)]
        assert sorted(key for part in dealt for key in part) == wanted
        assert max(map(len, dealt)) - min(map(len, dealt)) <= 1
        idle = [share[place] for share in shares if share.stands_in(place)]
        assert idle == [wanted[:1]] * max(0, size - batch_size)
    assert [len(share) for share in shares] == [3] * size
    assert list(shares[0]) == [shares[0][place] for place in range(3)]


def test_texts_of_like_length_are_spread_evenly():
    lengths = torch.arange(1, 41).numpy()
    keys = bucketed_batches(lengths, seed=1, epoch=0, batch_tokens=0, batch_size=8)
    for place in range(len(keys)):
        tokens = [
            sum(int(lengths[i]) for _, i in Shares(keys, rank, 2)[place]) for rank in range(2)
        ]
        assert abs(tokens[0] - tokens[1]) <= 4


def test_each_process_takes_a_gpu_of_its_own(monkeypatch):
    taken = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    for name in ("cuda", "auto"):
        assert choose_device(name, Second()) == torch.device("cuda:1")
    assert taken == [torch.device("cuda:1")] * 2
    assert choose_device("cpu", Second()) == torch.device("cpu")
    with pytest.raises(UsageError, match="use --device cuda"):
        choose_device("cuda:0", Second())


def test_more_processes_than_gpus_are_refused_in_one_line(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for name in ("cuda", "auto"):
        with pytest.raises(UsageError, match="more processes than GPUs") as caught:
            choose_device(name, Second())
        assert "\n" not in str(caught.value)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    with pytest.raises(UsageError, match="2 processes train this run"):
        choose_device("mps", Second())
