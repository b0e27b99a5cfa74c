"""Intervals of a mean by Student's t distribution."""

from __future__ import annotations

import math

LEVEL = 0.95


def central_share(theta: float, n_degrees: int) -> float:
    """Share of Student's t distribution between -t and t, t = sqrt(n_degrees) * tan(theta).

    The finite series of "Handbook of Mathematical Functions" (NBS 1964), 26.7.3 and 26.7.4, exact
    for every whole number of degrees.

    Args:
        theta: 0 up to pi / 2.
        n_degrees: degrees of freedom, at least 1.

    Returns:
        0 to 1.
    """
    cosine, odd = math.cos(theta), n_degrees % 2
    term = cosine if odd else 1.0
    total = term if n_degrees > 1 else 0.0
    for degree in range(2 + odd, n_degrees - 1, 2):
        term *= (degree - 1) / degree * cosine**2
        total += term
    total *= math.sin(theta)
    return 2 / math.pi * (theta + total) if odd else total


def t_quantile(n_degrees: int, level: float = LEVEL) -> float:
    """The t between which and -t a share of Student's distribution lies.

    Args:
        n_degrees: degrees of freedom, at least 1.
        level: the share, between 0 and 1.

    Returns:
        A positive number: 12.706 for one degree and 95 %, towards 1.960 for many.

    Raises:
        ValueError: fewer than one degree, or a level that is no share.
    """
    if n_degrees < 1 or not 0 < level < 1:
        raise ValueError(f"no t quantile for {n_degrees} degrees of freedom and level {level}")
    low, high = 0.0, math.pi / 2
    while True:
        middle = (low + high) / 2
        if not low < middle < high:
            return math.sqrt(n_degrees) * math.tan(middle)
        if central_share(middle, n_degrees) < level:
            low = middle
        else:
            high = middle
