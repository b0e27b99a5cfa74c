"""Counts of a step: exact, the same in every run, and not beyond the memory that there is."""

from __future__ import annotations

import pytest
import torch
from small_profiles import small_subject
from torch import nn
from torch.nn import functional

from damcha_core.profiling import memory_limits, step_cost
from damcha_core.profiling.growth import fit_growth
from damcha_core.profiling.memory import measure_memory
from damcha_core.profiling.memory_limits import OutOfMemory
from damcha_core.profiling.operations import counted_operations
from damcha_core.profiling.step_cost import CostMeter, StepCost, measure_cost
from damcha_core.profiling.traffic import measure_traffic

BOTH = pytest.mark.parametrize("is_causal", [False, True])


@BOTH
@pytest.mark.parametrize("name", ["mha", "damcha"])
def test_one_pass_counts_what_three_would(name: str, is_causal: bool) -> None:
    subject = small_subject(name, is_causal=is_causal)
    x = subject.tokens(9)
    cost = measure_cost(subject, x)
    assert cost == measure_cost(subject, x)
    assert cost.counted_flops == counted_operations(lambda: subject.step(x))
    assert cost.moved_bytes == measure_traffic(lambda: subject.step(x))
    use = measure_memory(lambda: subject.step(x), "cpu")
    assert cost.peak_bytes == cost.resident_bytes + use.added_bytes


def test_what_is_there_between_steps_is_weights_two_moments_counts_and_tokens() -> None:
    subject = small_subject("damcha")
    parameters = list(subject.model.parameters())
    weights = sum(parameter.numel() for parameter in parameters)
    tokens = subject.tokens(9)
    expected = 4 * (3 * weights + len(parameters) + tokens.numel())
    assert subject.resident_bytes(tokens) == expected


def test_traffic_of_a_product_by_hand() -> None:
    left, right = torch.randn(3, 5), torch.randn(7, 5)
    assert measure_traffic(lambda: left @ right.mT) == 4 * (3 * 5 + 5 * 7 + 3 * 7)
    assert measure_traffic(lambda: left.view(5, 3).mT) == 0
    assert measure_traffic(lambda: left.add_(1.0)) == 4 * 2 * 15
    layer = nn.Linear(5, 7)
    with torch.no_grad():
        moved = measure_traffic(lambda: functional.gelu(layer(left)))
    assert moved == 4 * ((15 + 35 + 7 + 21) + 2 * 21)


def test_products_without_scores_grow_in_proportion() -> None:
    """The generator of causal damcha is linear in the length, and so is nearly all of it."""
    subject = small_subject("damcha")
    lengths = [16, 32, 64]
    counts = [measure_cost(subject, subject.tokens(n)).counted_flops for n in lengths]
    per_token = [count / n for count, n in zip(counts, lengths, strict=True)]
    # (count(N)/N) is a line in N, because only scores and sums are quadratic.
    assert per_token[2] - per_token[1] == pytest.approx(2 * (per_token[1] - per_token[0]))
    found = fit_growth(lengths, counts)
    assert found is not None
    assert 1.0 < found.exponent < 1.5


def test_a_length_that_will_not_fit_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    meter = CostMeter(small_subject("mha"))
    assert isinstance(meter.measure(16), StepCost)
    assert isinstance(meter.measure(32), StepCost)
    ran: list[int] = []
    real = step_cost.measure_cost

    def noted(subject, x):
        ran.append(x.shape[1])
        return real(subject, x)

    monkeypatch.setattr(step_cost, "measure_cost", noted)
    limit = meter._needed(300) // 2
    monkeypatch.setattr(memory_limits, "available_memory", lambda device: limit)
    found = meter.measure(1000)
    assert isinstance(found, OutOfMemory)
    assert found.predicted
    assert found.needed_bytes > limit
    assert ran
    assert max(ran) < 300
    # A longer one is not even probed, and a shorter one went through before.
    ran.clear()
    longer = meter.measure(2000)
    assert isinstance(longer, OutOfMemory)
    assert longer.needed_bytes > found.needed_bytes
    assert not ran


def test_a_failed_allocation_leaves_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = small_subject("mha")
    meter = CostMeter(subject)

    def fails(*_: object) -> None:
        subject.backward(subject.forward(subject.tokens(3)))
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(step_cost, "measure_cost", fails)
    found = meter.measure(16)
    assert isinstance(found, OutOfMemory)
    assert not found.predicted
    assert all(parameter.grad is None for parameter in subject.model.parameters())
    assert isinstance(meter.measure(32), OutOfMemory)


def test_other_errors_are_not_taken_for_a_lack_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("shapes do not fit")

    monkeypatch.setattr(step_cost, "measure_cost", fails)
    with pytest.raises(RuntimeError, match="shapes"):
        CostMeter(small_subject("mha")).measure(16)
