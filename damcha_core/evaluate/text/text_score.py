"""What every scorer of text returns, and the form in which a score can be resampled."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

Tokens = Sequence[str]
"""A tokenised text."""


@dataclass(frozen=True, eq=False)
class ItemSums:
    """A metric as a function of sums over items, which is all that resampling needs.

    Attributes:
        rows: (N, K), one row an item, what that item adds to each of K sums.
        value_of: sums (M, K) to M values of the metric, NaN where it is undefined.
        like_sacrebleu: resample with the draws and the test of sacrebleu, so that its command
            line gives the same figures; otherwise with ours.
    """

    rows: FloatArray
    value_of: Callable[[FloatArray], FloatArray]
    like_sacrebleu: bool = False


@dataclass(frozen=True, eq=False)
class TextScore:
    """A metric over the items of a split.

    Attributes:
        value: the metric, None where it is undefined.
        n: how many items (or tokens, for perplexity) it is made of.
        signature: the settings that the value depends on.
        items: one value an item where the metric has such, None for an undefined one. Their
            mean need not be the value: corpus metrics pool counts.
        sums: for resampling, see `bootstrap`.
        interval: lower and upper end of the 95 % interval, None where it was not asked for or
            cannot be had.
        n_resamples: how many resamples the interval is made of, 0 without one.
        notices: plain lines that the user should see.
    """

    value: float | None
    n: int
    signature: str = ""
    items: tuple[float | None, ...] | None = None
    sums: ItemSums | None = None
    interval: tuple[float, float] | None = None
    n_resamples: int = 0
    notices: tuple[str, ...] = ()


def means(sums_MK: FloatArray) -> FloatArray:
    """Quotients of the first of two sums by the second, NaN where that is 0."""
    count_M = sums_MK[:, 1]
    safe_M = np.where(count_M > 0, count_M, 1.0)
    return np.where(count_M > 0, sums_MK[:, 0] / safe_M, np.nan)


def mean_score(
    items: Sequence[float | None], *, signature: str, notices: Sequence[str] = ()
) -> TextScore:
    """The score that is the mean of its items.

    Args:
        items: one value an item; None is left out of the mean.
        signature: see `TextScore`.
        notices: see `TextScore`.

    Returns:
        The mean, None without a single value; n counts the items that have one.
    """
    present = [value for value in items if value is not None]
    # fsum rounds once, so the mean is the same for every order of the items.
    value = math.fsum(present) / len(present) if present else None
    rows = [(0.0, 0.0) if value is None else (value, 1.0) for value in items]
    return TextScore(
        value=value,
        n=len(present),
        signature=signature,
        items=tuple(items),
        sums=ItemSums(np.array(rows, dtype=np.float64).reshape(-1, 2), means),
        notices=tuple(notices),
    )


def check_items(hypotheses: Sequence[object], references: Sequence[Sequence[object]]) -> None:
    """Refuse texts that do not belong together, before a wrong number comes of them.

    Args:
        hypotheses: one an item.
        references: for each item its references, one or several.

    Raises:
        TypeError: an item's references are a single string.
        ValueError: other numbers of items, or an item without a reference.
    """
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} outputs but references for {len(references)} items.")
    for place, of_item in enumerate(references):
        if isinstance(of_item, str):
            raise TypeError(f"The references of item {place} must be a list of texts, not a text.")
        if not of_item:
            raise ValueError(f"Item {place} has no reference.")
