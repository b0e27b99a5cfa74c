"""Where the time goes: every event belongs to one part, backward passes too."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from small_profiles import CountedClock, small_subject

from damcha_core.profiling.clock import CPU_TIME, WALL_TIME
from damcha_core.profiling.decoding_time import Decoder, time_decoding
from damcha_core.profiling.hot_spots import BACKWARD, REST, find_hot_spots, hot_spots
from damcha_core.profiling.spans import METRIC, PREFIX, part_name


@dataclass
class Event:
    name: str
    start: float
    own: float
    total: float = 0.0
    sequence_nr: int = -1
    cpu_parent: Any = None
    device_type: Any = field(default_factory=lambda: SimpleNamespace(name="CPU"))

    @property
    def time_range(self) -> Any:
        return SimpleNamespace(start=self.start)

    @property
    def self_cpu_time_total(self) -> float:
        return self.own

    @property
    def cpu_time_total(self) -> float:
        return self.total or self.own


def test_forward_and_backward_of_a_part_add_up() -> None:
    block = Event(f"{PREFIX}blocks.*", 0, 1.0)
    linear = Event(f"{PREFIX}blocks.*.out", 1, 1.0, cpu_parent=block)
    product = Event("aten::mm", 2, 10.0, sequence_nr=5, cpu_parent=linear)
    metric = Event(f"{PREFIX}{METRIC}", 3, 2.0, cpu_parent=block)
    inner = Event(f"{PREFIX}shared.body.0", 4, 0.0, cpu_parent=metric)
    generated = Event("aten::addmm", 5, 40.0, sequence_nr=6, cpu_parent=inner)
    node = Event(f"{BACKWARD}MmBackward", 6, 1.0, total=21.0, sequence_nr=5)
    called = Event("aten::mm", 7, 20.0, cpu_parent=node)
    other = Event(f"{BACKWARD}AddmmBackward", 8, 5.0, sequence_nr=6)
    lost = Event(f"{BACKWARD}AccumulateGrad", 9, 1.0)
    events = [lost, other, called, node, generated, inner, metric, product, linear, block]
    found = hot_spots(events, uses_gpu=False)
    shares = {part.name: part.share for part in found.parts}
    whole = 1 + 1 + 10 + 2 + 40 + 21 + 5 + 1
    assert shares == pytest.approx(
        {
            "blocks.*.out": (1 + 10 + 21) / whole,
            METRIC: (2 + 40 + 5) / whole,
            "blocks.*": 1 / whole,
            REST: 1 / whole,
        }
    )
    assert found.metric == shares[METRIC]
    assert found.operators[0].name == "aten::addmm"
    assert {part.name for part in found.operators} == {"aten::addmm", "aten::mm"}


@pytest.mark.parametrize("is_causal", [False, True])
def test_a_real_step_of_damcha_has_a_metric_and_one_of_mha_has_none(is_causal: bool) -> None:
    subject = small_subject("damcha", is_causal=is_causal)
    before = {name: dict(vars(module)) for name, module in subject.model.named_modules()}
    found = find_hot_spots(subject, subject.tokens(12), n_steps=2)
    assert found.metric is not None
    assert 0 < found.metric < 1
    assert 0 < len(found.parts) <= 5
    assert 0 < len(found.operators) <= 5
    assert sum(part.share for part in found.parts) <= 1 + 1e-9
    assert not any("damcha part" in part.name for part in found.operators)
    after = {name: set(vars(module)) for name, module in subject.model.named_modules()}
    assert after == {name: set(attributes) for name, attributes in before.items()}
    for module in subject.model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
    mha = small_subject("mha", is_causal=is_causal)
    assert find_hot_spots(mha, mha.tokens(12)).metric is None


def test_blocks_add_up_under_one_name() -> None:
    assert part_name("blocks.3.attention.out") == "blocks.*.attention.out"
    assert part_name("blocks.3") == "blocks.*"
    assert part_name("blocks.3.feed_forward.0") == "blocks.*.feed_forward.0"
    assert part_name("") == "stack"


def test_decoding_times_single_tokens_after_a_context() -> None:
    subjects = [small_subject("mha"), small_subject("damcha")]
    clock = CountedClock()
    mha, damcha = time_decoding(subjects, 7, clock, WALL_TIME)
    assert mha.context == damcha.context == 7
    # One second between two readings of the clock, for two steps.
    assert mha.step.wall.median == damcha.step.wall.median == 0.5
    assert mha.metric is None
    # Two layers, one second each.
    assert damcha.metric == 2.0
    assert time_decoding(subjects[1:], 7, clock, CPU_TIME)[0].metric == 6.0


@pytest.mark.parametrize("name", ["mha", "damcha", "damcha-static", "damcha-geometric"])
def test_what_is_decoded_is_what_a_whole_pass_gives(name: str) -> None:
    """The timed steps are real ones: the cache holds the context and every token after it."""
    subject = small_subject(name)
    decoder = Decoder(subject, 7)
    decoder.turn(CountedClock())()
    assert decoder.cache.length == 9
    step = subject.model(decoder.next_B1D, cache=decoder.cache)
    whole = torch.cat([subject.tokens(7), *[decoder.next_B1D] * 3], dim=1)
    torch.testing.assert_close(step, subject.model(whole)[:, -1:], rtol=1e-4, atol=1e-5)
