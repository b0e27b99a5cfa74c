"""The most probable tokens of each row, in an order that is the same everywhere.

Shapes: R rows (texts that go on), V vocabulary, K tokens of a row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True)
class TopTokens:
    """The most probable tokens of each row, on the CPU.

    Attributes:
        log_p: (R, K) log-probabilities, the largest first.
        ids: (R, K) the tokens; of equally probable ones the lowest ids, in ascending order.
        more: columns that were asked for beside them (R, columns).
    """

    log_p: NDArray[np.float64]
    ids: NDArray[np.int64]
    more: NDArray[np.float64]


def top_tokens(log_p_RV: Tensor, n: int, more: Tensor) -> TopTokens:
    """The n most probable tokens of each row.

    `torch.topk` leaves open which of equal values it takes and in which order, so its choice is
    mended: here among the few that it took, and where equal values were left out, among all.

    Args:
        log_p_RV: log-probabilities.
        n: how many, at least 1; more than V are V.
        more: columns (R, any) to bring to the CPU in the same transfer.

    Returns:
        min(n, V) tokens of each row.
    """
    n = min(n, log_p_RV.shape[1])
    values, ids = log_p_RV.topk(min(n + 1, log_p_RV.shape[1]), dim=1)
    # One wait for the device a step; a float32 holds every id below 2**24.
    fetched = torch.cat([values, ids.to(values.dtype), more.to(values.dtype)], 1)
    host = fetched.cpu().numpy().astype(np.float64)
    width = values.shape[1]
    value_RK, id_RK = host[:, :width], host[:, width : 2 * width].astype(np.int64)
    order = np.lexsort((id_RK, -value_RK), axis=1)
    value_RK = np.take_along_axis(value_RK, order, 1)
    id_RK = np.take_along_axis(id_RK, order, 1)
    if width > n:
        left_out = value_RK[:, n - 1] == value_RK[:, n]
        tied = np.flatnonzero(left_out & np.isfinite(value_RK[:, n]))
        value_RK, id_RK = value_RK[:, :n], id_RK[:, :n]
        if len(tied):
            id_RK[tied] = _lowest_ids(log_p_RV, value_RK, id_RK, tied)
    return TopTokens(value_RK, id_RK, host[:, 2 * width :])


def _lowest_ids(
    log_p_RV: Tensor,
    value_RK: NDArray[np.float64],
    id_RK: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> NDArray[np.int64]:
    """The ids of these rows, with the lowest of those that share the last value."""
    n_vocab, n = log_p_RV.shape[1], value_RK.shape[1]
    last_R1 = value_RK[rows, -1:]
    tied_RV = log_p_RV[torch.from_numpy(rows).to(log_p_RV.device)]
    equal_RV = tied_RV == torch.from_numpy(last_R1).to(tied_RV)
    countdown_V = torch.arange(n_vocab, 0, -1, device=log_p_RV.device)
    # The keys are all different, but for those of tokens that are not wanted.
    lowest_RK = (equal_RV * countdown_V).topk(n, dim=1).indices.cpu().numpy()
    is_last_RK = value_RK[rows] == last_R1
    place_RK = np.maximum(is_last_RK.cumsum(1) - 1, 0)
    return np.where(is_last_RK, np.take_along_axis(lowest_RK, place_RK, 1), id_RK[rows])
