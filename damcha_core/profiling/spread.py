"""Middle and spread of repeated measurements."""

from __future__ import annotations

import math
from collections.abc import Sequence

from damcha_core.profiling.profile_record import Range


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which a share of the values lies, linear between neighbours.

    Args:
        values: at least one, in any order.
        share: from 0 to 1.
    """
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def spread(values: Sequence[float]) -> Range:
    """The spread of some measurements, at least one."""
    return Range(median=quantile(values, 0.5), p20=quantile(values, 0.2), p80=quantile(values, 0.8))


def paired_ratios(values: Sequence[float], base: Sequence[float]) -> Range:
    """The spread of the ratios of measurements that were made in the same round.

    Args:
        values: one a round.
        base: one a round, in the same order.

    Raises:
        ValueError: there are not as many of both.
    """
    return spread([value / other for value, other in zip(values, base, strict=True)])
