"""How much memory a longer sequence will need, told from shorter ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SHORTEST_PROBE = 16
PROBE_SECONDS = 4.0
"""A probe that takes longer is the last one."""


@dataclass
class MemoryForecast:
    """Peaks at the lengths that were run, continued by a polynomial of degree two.

    What a stack keeps is a constant (weights, gradients, optimiser), a multiple of the length
    (activations) and a multiple of its square (scores, where a layer keeps them).

    Attributes:
        peaks: bytes by length.
    """

    peaks: dict[int, int] = field(default_factory=dict)

    def add(self, length: int, peak_bytes: int) -> None:
        """Remember what a length took."""
        self.peaks[length] = peak_bytes

    def next_probe(self, length: int) -> int | None:
        """A shorter length to run first, so that this one can be told; None: none is needed."""
        known = [other for other in self.peaks if other < length]
        probe = 2 * max(known) if known else SHORTEST_PROBE
        return probe if probe < length else None

    def predict(self, length: int) -> int | None:
        """Bytes that a length will need.

        Returns:
            None where fewer than two shorter lengths are known.
        """
        known = {n: peak for n, peak in self.peaks.items() if n < length}
        if len(known) < 2:
            return None
        return round(continued(known, length))


def continued(points: Mapping[int, float], place: int) -> float:
    """The value at a place beyond some points, which grows at least in proportion.

    Args:
        points: value by place, at least two.
        place: beyond all of them.

    Returns:
        The value of the parabola through the last three points where it bends upwards, else of the
        line through the last two where it rises, else the last value.
    """
    *before, second, last = sorted(points)
    slope = (points[last] - points[second]) / (last - second)
    bend = 0.0
    if before:
        third = before[-1]
        earlier = (points[second] - points[third]) / (second - third)
        bend = max(0.0, (slope - earlier) / (last - third))
    beyond = place - last
    return points[last] + max(0.0, slope) * beyond + bend * beyond * (place - second)
