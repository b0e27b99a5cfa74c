"""95 % intervals and paired tests by resampling the items of a score.

An interval is made of order statistics of the resampled values: with n resamples it runs from
the value at place n // 40 to the one as far from the other end, without interpolation. That is
the rule of sacrebleu, used here for every metric.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from damcha_core.data.randomness import generator
from damcha_core.evaluate.text.text_score import FloatArray, ItemSums, TextScore

N_RESAMPLES = 1000
SACREBLEU_SEED = 12345

# Values gathered at a time; bounds the memory whatever the number of items and resamples.
CHUNK_VALUES = 1 << 20


@dataclass(frozen=True)
class PairedResult:
    """Outcome of a paired test.

    Attributes:
        difference: value of the system less value of the baseline.
        interval: 95 % interval of the difference, None where it cannot be had.
        p_value: two-sided, None where it cannot be had.
        n: items compared.
        n_resamples: resamples drawn.
    """

    difference: float
    interval: tuple[float, float] | None
    p_value: float | None
    n: int
    n_resamples: int


def resampled_places(
    n_items: int, n_resamples: int, *, like_sacrebleu: bool = False, n_chunk: int = 64
) -> Iterator[NDArray[np.int64]]:
    """Draws of items with replacement, the same in every run and for every chunk size.

    Args:
        n_items: items to draw from, 1 up to 2**32 - 1.
        n_resamples: resamples, each of n_items draws.
        like_sacrebleu: the draws that sacrebleu makes with its default seed, whatever the
            environment variable SACREBLEU_SEED says; otherwise a stream of ours.
        n_chunk: resamples given at a time.

    Yields:
        Places (up to n_chunk, n_items), each 0 up to n_items - 1.
    """
    sacrebleu_stream = np.random.default_rng(SACREBLEU_SEED)
    raw = generator("bootstrap", n_items).bit_generator
    for start in range(0, n_resamples, n_chunk):
        shape = (min(n_chunk, n_resamples - start), n_items)
        if like_sacrebleu:
            yield sacrebleu_stream.choice(n_items, size=shape, replace=True)
        else:
            high = raw.random_raw(shape[0] * n_items).reshape(shape) >> np.uint64(32)
            # High half of a product of two 32-bit numbers: uniform but for n_items / 2**32.
            yield ((high * np.uint64(n_items)) >> np.uint64(32)).astype(np.int64)


def resampled_values(sums: ItemSums, n_resamples: int) -> FloatArray:
    """The metric on every resample.

    Args:
        sums: at least one item.
        n_resamples: how many.

    Returns:
        One value a resample, NaN where the metric is undefined on it.
    """
    return _resampled([sums], n_resamples)[0]


def _resampled(all_sums: list[ItemSums], n_resamples: int) -> list[FloatArray]:
    """`resampled_values` of several metrics on the same draws."""
    rows = [sums.rows for sums in all_sums]
    n_items = len(rows[0])
    widest = max(row.shape[1] for row in rows)
    places = resampled_places(
        n_items,
        n_resamples,
        like_sacrebleu=all_sums[0].like_sacrebleu,
        n_chunk=max(1, CHUNK_VALUES // (n_items * widest)),
    )
    totals: list[list[FloatArray]] = [[] for _ in rows]
    for chunk in places:
        for total, row in zip(totals, rows, strict=True):
            total.append(row[chunk].sum(axis=1))
    return [
        sums.value_of(np.concatenate(total)) for sums, total in zip(all_sums, totals, strict=True)
    ]


def central_interval(values: FloatArray) -> tuple[float, float] | None:
    """Ends of the middle 95 % of some values.

    Args:
        values: any order; NaN is left out.

    Returns:
        The two ends, None without a value.
    """
    ordered = np.sort(values[~np.isnan(values)])
    if not len(ordered):
        return None
    cut = len(ordered) // 40
    return float(ordered[cut]), float(ordered[len(ordered) - 1 - cut])


def with_interval(score: TextScore, n_resamples: int = N_RESAMPLES) -> TextScore:
    """The score with its 95 % interval.

    Args:
        score: any; one that is undefined, has a single item or no sums comes back as it is.
        n_resamples: resamples to draw, at least 40 for an interval that cuts anything off.

    Returns:
        A copy with `interval` and `n_resamples`.
    """
    if score.value is None or score.sums is None or len(score.sums.rows) < 2:
        return score
    interval = central_interval(resampled_values(score.sums, n_resamples))
    return replace(score, interval=interval, n_resamples=n_resamples)


def paired_test(
    baseline: TextScore, system: TextScore, n_resamples: int = N_RESAMPLES
) -> PairedResult | None:
    """Bootstrap test of two scores over the same items.

    The p value of our own metrics is (1 + count(|d* - d| >= |d|)) / (1 + resamples), d the
    difference and d* that of a resample. sacrebleu's metrics follow its paired bootstrap test,
    (1 + count(|d*| - mean |d*| > |d|)) / (1 + resamples), but for systems that never differ,
    which get 1 here and 1 / (1 + resamples) there.

    Args:
        baseline: with `sums`.
        system: the same metric over the same items in the same order.
        n_resamples: resamples to draw.

    Returns:
        The outcome, None where one of the scores is undefined or has no sums.

    Raises:
        ValueError: the two have different numbers of items or settings.
    """
    if baseline.value is None or system.value is None:
        return None
    if baseline.sums is None or system.sums is None:
        return None
    n_items = len(baseline.sums.rows)
    if n_items != len(system.sums.rows):
        raise ValueError(f"{n_items} and {len(system.sums.rows)} items cannot be paired.")
    if baseline.signature != system.signature:
        raise ValueError(
            f"Scores made in two ways: {baseline.signature!r} and {system.signature!r}."
        )
    difference = system.value - baseline.value
    if n_items < 2 or not np.isfinite(difference):
        return PairedResult(difference, None, None, n_items, 0)
    of_baseline, of_system = _resampled([baseline.sums, system.sums], n_resamples)
    drawn = of_system - of_baseline
    drawn = drawn[np.isfinite(drawn)]
    p_value = _p_value(drawn, difference, baseline.sums.like_sacrebleu)
    return PairedResult(difference, central_interval(drawn), p_value, n_items, n_resamples)


def _p_value(drawn: FloatArray, difference: float, like_sacrebleu: bool) -> float:
    """See `paired_test`."""
    if not np.any(drawn) and difference == 0.0:
        return 1.0
    if like_sacrebleu:
        sizes = np.abs(drawn)
        as_large = sizes - sizes.mean() > abs(difference)
    else:
        as_large = np.abs(drawn - difference) >= abs(difference)
    return (int(np.count_nonzero(as_large)) + 1) / (len(drawn) + 1)
