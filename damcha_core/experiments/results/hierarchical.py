"""Bootstrap over seeds and test items at once.

All seeds are scored on the same test items, so a resample draws seeds, then items once for all of
them: drawing items anew for every seed would average their spread away. Of S seeds it draws
S - 1, because the mean of S draws out of S values spreads too little by the factor (S - 1) / S
("Resampling Inference With Complex Survey Data", Journal of the American Statistical Association
83, 1988).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from damcha_core.data.randomness import generator
from damcha_core.evaluate.text.bootstrap import central_interval
from damcha_core.evaluate.text.text_score import FloatArray


def drawn_seeds(n_seeds: int, n_resamples: int) -> NDArray[np.int64]:
    """How often each seed is drawn in each resample.

    Args:
        n_seeds: at least 2.
        n_resamples: how many.

    Returns:
        Counts (n_resamples, n_seeds) that add up to n_seeds - 1, the same in every run.
    """
    shape = (n_resamples, n_seeds - 1)
    raw = generator("bootstrap seeds", n_seeds).bit_generator.random_raw(shape[0] * shape[1])
    places = (((raw >> np.uint64(32)) * np.uint64(n_seeds)) >> np.uint64(32)).reshape(shape)
    return (places[:, :, None] == np.arange(n_seeds, dtype=np.uint64)).sum(axis=1)


def drawn_means(values_SM: FloatArray) -> FloatArray:
    """Means over drawn seeds.

    Args:
        values_SM: for each of S seeds the value on each of M resamples of the items.

    Returns:
        M means; NaN where a drawn seed has none.
    """
    n_seeds, n_resamples = values_SM.shape
    counts_MS = drawn_seeds(n_seeds, n_resamples)
    # A seed that was not drawn does not count, even where its value is NaN.
    drawn_MS = np.where(counts_MS > 0, counts_MS * values_SM.T, 0.0)
    return drawn_MS.sum(axis=1) / (n_seeds - 1)


def hierarchical_test(
    baseline_SM: Sequence[FloatArray], system_SM: Sequence[FloatArray], difference: float
) -> tuple[tuple[float, float] | None, float | None]:
    """Test of a difference that is a mean over seeds.

    Args:
        baseline_SM: for each seed the baseline's value on each resample of the items.
        system_SM: likewise of the system, on the same resamples, for the same seeds.
        difference: the observed one, system less baseline.

    Returns:
        95 % interval of the difference, and its two-sided p value,
        (1 + count(|d* - d| >= |d|)) / (1 + resamples) with d* that of a resample; None and None
        where no resample has a value.
    """
    drawn_M = drawn_means(np.array(system_SM) - np.array(baseline_SM))
    drawn_M = drawn_M[np.isfinite(drawn_M)]
    if not len(drawn_M):
        return None, None
    if difference == 0.0 and not np.any(drawn_M):
        return (0.0, 0.0), 1.0
    as_large = int(np.count_nonzero(np.abs(drawn_M - difference) >= abs(difference)))
    return central_interval(drawn_M), (1 + as_large) / (1 + len(drawn_M))
