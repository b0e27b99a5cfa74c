"""Measurements in rounds, so that neither order nor a change in the machine's speed favours one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def order_of_round(n_turns: int, number: int) -> list[int]:
    """Whose turn it is in a round: A B C, then C B A, then B C A, then A C B, ...

    Two rounds give everyone the same mean place; 2 n rounds give everyone every place equally
    often.

    Args:
        n_turns: how many take part, at least 1.
        number: of the round, from 0.

    Returns:
        Their numbers in order.
    """
    shift = number // 2 % n_turns
    order = [(shift + place) % n_turns for place in range(n_turns)]
    return order[::-1] if number % 2 else order


def in_rounds(turns: Sequence[Callable[[], T]], n_rounds: int) -> list[list[T]]:
    """Run each of several measurements once a round.

    Args:
        turns: the measurements.
        n_rounds: at least 1.

    Returns:
        For each measurement its result of every round: results with the same place belong to the
        same round and so to about the same moment.
    """
    results: list[list[T]] = [[] for _ in turns]
    for number in range(n_rounds):
        for turn in order_of_round(len(turns), number):
            results[turn].append(turns[turn]())
    return results
