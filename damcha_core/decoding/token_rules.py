"""Which tokens may come next, and with which log-probability.

The source text has no part in any rule: only tokens that the search itself has added count.

Shapes: R rows (texts that go on), V vocabulary, T tokens added so far, the same for all rows.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from damcha_core.decoding.search_settings import SearchSettings

Tokens = NDArray[np.int64]
"""Token ids."""


def allowed_log_probabilities(logits_RV: Tensor, forbidden_ids: Tensor) -> Tensor:
    """Log-softmax over the tokens that are not forbidden.

    Args:
        logits_RV: logits of any float dtype; they are left as they are.
        forbidden_ids: int64 ids of the tokens that never come, on the device of the logits.

    Returns:
        (R, V) in float32, or float64 for such logits; -inf for the forbidden.
    """
    dtype = torch.promote_types(logits_RV.dtype, torch.float32)
    allowed_RV = logits_RV.to(dtype).index_fill(1, forbidden_ids, -torch.inf)
    return torch.log_softmax(allowed_RV, 1)


def penalised(log_p_RV: Tensor, text_RT: Tokens, penalty: float) -> Tensor:
    """Log-probabilities after a repetition penalty, a distribution again.

    Source: "CTRL: A Conditional Transformer Language Model for Controllable Generation" (arXiv
    1909.05858), section 4.1. It scales the logits, whose sign has no meaning; here the
    log-probability of a token that the text has is multiplied instead, which does not depend on
    how the logits are shifted.

    Args:
        log_p_RV: log-probabilities.
        text_RT: tokens of each text.
        penalty: above 0; above 1 makes tokens of the text less probable.

    Returns:
        Log-probabilities (R, V).
    """
    if not text_RT.size:
        return log_p_RV
    ids_RT = torch.from_numpy(text_RT).to(log_p_RV.device)
    # A token that comes twice is written twice with the same value.
    scaled_RV = log_p_RV.scatter(1, ids_RT, log_p_RV.gather(1, ids_RT) * penalty)
    return torch.log_softmax(scaled_RV, 1)


def repeating(text_RT: Tokens, n: int) -> tuple[Tokens, Tokens]:
    """The tokens that would make a run of n tokens come a second time in a text.

    Args:
        text_RT: tokens of each text.
        n: length of the run, at least 1.

    Returns:
        Rows and token ids, one entry a token; some may be listed twice.
    """
    if text_RT.shape[1] < n:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    runs_RWn = np.lib.stride_tricks.sliding_window_view(text_RT, n, axis=1)
    last_R1n = text_RT[:, None, text_RT.shape[1] - n + 1 :]
    same_RW = (runs_RWn[:, :, :-1] == last_R1n).all(-1)
    rows, places = np.nonzero(same_RW)
    return rows, runs_RWn[rows, places, -1]


class TokenRules:
    """The distribution of the next token in a search.

    Two kinds of rules differ in what becomes of the probability that they take away. Forbidden
    marks and the repetition penalty change the distribution, which is normalised again: marks are
    no part of a text, whatever a model gives them. Minimum length and no-repeat runs only close
    ways of the search: the others keep their probabilities.

    Args:
        settings: minimum length, no-repeat run and repetition penalty.
        end_id: the end mark.
        forbidden_ids: tokens that never come; the end mark among them is ignored.
        vocab_size: number of tokens V.
    """

    def __init__(
        self, settings: SearchSettings, end_id: int, forbidden_ids: Iterable[int], vocab_size: int
    ) -> None:
        self.settings = settings
        self.end_id = end_id
        forbidden = sorted(i for i in set(forbidden_ids) - {end_id} if 0 <= i < vocab_size)
        self._never = frozenset(forbidden) | {end_id}
        self._forbidden = torch.tensor(forbidden, dtype=torch.int64)

    def forbids(self, tokens: Iterable[int]) -> bool:
        """Whether one of these tokens is no part of any text."""
        return not self._never.isdisjoint(tokens)

    def log_probabilities(self, logits_RV: Tensor, text_RT: Tokens) -> Tensor:
        """The distribution of the next token, before any way is closed.

        Args:
            logits_RV: logits of the model.
            text_RT: tokens of each text so far.

        Returns:
            (R, V) in float32 or wider.
        """
        if self._forbidden.device != logits_RV.device:
            self._forbidden = self._forbidden.to(logits_RV.device)
        log_p_RV = allowed_log_probabilities(logits_RV, self._forbidden)
        penalty = self.settings.repetition_penalty
        return log_p_RV if penalty == 1 else penalised(log_p_RV, text_RT, penalty)

    def close_ways(self, log_p_RV: Tensor, text_RT: Tokens) -> None:
        """Set tokens to -inf that no-repeat runs or the minimum length rule out.

        Args:
            log_p_RV: log-probabilities; overwritten.
            text_RT: tokens of each text so far.
        """
        if self.settings.no_repeat_ngram:
            rows, ids = repeating(text_RT, self.settings.no_repeat_ngram)
            if len(rows):
                where = tuple(torch.from_numpy(i).to(log_p_RV.device) for i in (rows, ids))
                log_p_RV[where] = -torch.inf
        if text_RT.shape[1] < self.settings.min_new_tokens:
            log_p_RV[:, self.end_id] = -torch.inf
