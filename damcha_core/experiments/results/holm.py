"""p values of several tests at once, corrected so that no false alarm is more likely than stated.

"A Simple Sequentially Rejective Multiple Test Procedure" (Scandinavian Journal of Statistics 6,
1979).
"""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's corrected p values of a family of tests.

    Args:
        p_values: of each test; None is a comparison that was not tested and does not count.

    Returns:
        In the same order: the largest of p_(j) * (m - j + 1) over the j up to the own rank, at
        most 1, where m is the number of tests; None stays None.
    """
    tested = [(p_value, place) for place, p_value in enumerate(p_values) if p_value is not None]
    corrected: list[float | None] = [None] * len(p_values)
    floor = 0.0
    for rank, (p_value, place) in enumerate(sorted(tested)):
        floor = max(floor, min(1.0, p_value * (len(tested) - rank)))
        corrected[place] = floor
    return corrected
