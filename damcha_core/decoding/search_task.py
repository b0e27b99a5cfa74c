"""What one search is about, beside the model and the prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from damcha_core.decoding.hypothesis import Hypothesis, length_penalty
from damcha_core.decoding.search_settings import SearchSettings
from damcha_core.decoding.token_rules import TokenRules


@dataclass(frozen=True)
class SearchTask:
    """Settings of a search and what differs between its prompts.

    Attributes:
        settings: how to search.
        rules: which tokens may come next.
        limits: most text tokens of each prompt, at least 0.
        keys: a number of each prompt that its random draws depend on.
    """

    settings: SearchSettings
    rules: TokenRules
    limits: NDArray[np.int64]
    keys: Sequence[int]

    def hypothesis(
        self,
        tokens: NDArray[np.int64],
        log_p: float,
        *,
        cut: bool = False,
        unplaced: tuple[int, ...] = (),
    ) -> Hypothesis:
        """A finished text with its score.

        Args:
            tokens: its text tokens.
            log_p: its log-probability, the end mark included.
            cut: whether the limit ended it.
            unplaced: concepts that it lacks.
        """
        penalty = length_penalty(len(tokens) + 1, self.settings.length_penalty)
        return Hypothesis(tuple(tokens.tolist()), log_p, log_p / penalty, cut, unplaced)
