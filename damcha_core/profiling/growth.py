"""How a quantity grows with the length of the sequences."""

from __future__ import annotations

import math
from collections.abc import Sequence

from damcha_core.profiling.profile_record import Exponent


def fit_growth(lengths: Sequence[int], values: Sequence[float]) -> Exponent | None:
    """The power law c N^e that fits best: least squares of log(value) against log(length).

    Args:
        lengths: different ones, each at least 1.
        values: one for each length, all above 0.

    Returns:
        The exponent e, about 1 where the quantity grows in proportion to the length and about 2
        with its square, and the share of the variance of the logarithms that the law explains (1
        for two points). None where there are fewer than two lengths.

    Raises:
        ValueError: there are not as many of both, or a value is not above 0.
    """
    if len(lengths) != len(values):
        raise ValueError(f"{len(lengths)} lengths and {len(values)} values do not go together")
    if len(lengths) < 2:
        return None
    x = [math.log(length) for length in lengths]
    y = [math.log(value) for value in values]
    x_mean, y_mean = math.fsum(x) / len(x), math.fsum(y) / len(y)
    x_square = math.fsum((a - x_mean) ** 2 for a in x)
    y_square = math.fsum((b - y_mean) ** 2 for b in y)
    product = math.fsum((a - x_mean) * (b - y_mean) for a, b in zip(x, y, strict=True))
    exponent = product / x_square
    # A quantity that does not grow at all is explained completely by the exponent 0.
    explained = 1.0 if y_square == 0 else min(1.0, product**2 / (x_square * y_square))
    return Exponent(exponent=exponent, r_squared=explained)
