"""Memory of longer sequences, told from shorter ones."""

from __future__ import annotations

import pytest

from damcha_core.profiling.memory_forecast import SHORTEST_PROBE, MemoryForecast, continued


def forecast(**peaks: int) -> MemoryForecast:
    made = MemoryForecast()
    for name, peak in peaks.items():
        made.add(int(name[1:]), peak)
    return made


@pytest.mark.parametrize("far", [200, 1000, 100_000])
def test_constant_linear_and_quadratic_memory_is_told_exactly(far: int) -> None:
    def peak(n: int) -> int:
        return 1_000_000 + 700 * n + 5 * n * n

    made = forecast(n16=peak(16), n32=peak(32), n64=peak(64))
    assert made.predict(far) == peak(far)


def test_a_line_stays_a_line_and_a_saturating_curve_is_not_bent_down() -> None:
    assert forecast(n16=116, n32=132, n64=164).predict(1000) == 1100
    assert forecast(n16=100, n32=150, n64=160).predict(128) == pytest.approx(180)


def test_memory_that_fell_is_not_continued_below_zero() -> None:
    assert continued({1: 10.0, 2: 4.0}, 100) == 4.0


def test_too_few_lengths_tell_nothing() -> None:
    assert forecast().predict(64) is None
    assert forecast(n16=1).predict(64) is None
    assert forecast(n16=1, n32=2, n128=9).predict(64) is not None


def test_probes_double_until_the_length_is_near() -> None:
    made, probes = MemoryForecast(), []
    while (probe := made.next_probe(100)) is not None:
        probes.append(probe)
        made.add(probe, probe)
    assert probes == [SHORTEST_PROBE, 32, 64]
    assert MemoryForecast().next_probe(SHORTEST_PROBE) is None
    assert forecast(n64=1).next_probe(128) is None
