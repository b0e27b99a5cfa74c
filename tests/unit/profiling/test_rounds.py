"""Turns in rounds: nobody has a better place than anybody else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from damcha_core.profiling.rounds import in_rounds, order_of_round


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
def test_everyone_gets_every_place_equally_often(n: int) -> None:
    places: Counter[tuple[int, int]] = Counter()
    for number in range(2 * n):
        order = order_of_round(n, number)
        assert sorted(order) == list(range(n))
        places.update(enumerate(order))
    assert set(places.values()) == {2}
    assert len(places) == n * n


@pytest.mark.parametrize("n", [2, 3, 5])
def test_two_rounds_give_everyone_the_same_mean_place(n: int) -> None:
    for number in range(0, 2 * n, 2):
        first, second = order_of_round(n, number), order_of_round(n, number + 1)
        assert {first.index(i) + second.index(i) for i in range(n)} == {n - 1}


def test_turns_are_interleaved_and_results_go_with_their_round() -> None:
    log: list[str] = []

    def turn(name: str) -> Callable[[], str]:
        def run() -> str:
            log.append(name)
            return f"{name}{log.count(name)}"

        return run

    results = in_rounds([turn("a"), turn("b")], 4)
    assert "".join(log) == "abbabaab"
    assert results == [["a1", "a2", "a3", "a4"], ["b1", "b2", "b3", "b4"]]
