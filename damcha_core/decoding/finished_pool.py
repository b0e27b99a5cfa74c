"""The finished texts of a beam search, and when no other can still join the best of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from damcha_core.decoding.hypothesis import Hypothesis, length_penalty
from damcha_core.decoding.search_task import SearchTask


class FinishedPool:
    """Finished hypotheses of each prompt.

    A text that lacks fewer concepts comes before one that lacks more; then the score decides,
    and between equal scores which was finished first.

    Args:
        task: what the search is about.
        n_absent: (P), how many concepts no text of a prompt is asked to hold; None: 0.
    """

    def __init__(self, task: SearchTask, n_absent: NDArray[np.int64] | None = None) -> None:
        alpha = task.settings.length_penalty
        self._n_best = task.settings.n_best
        self._found: list[list[Hypothesis]] = [[] for _ in task.limits]
        # Adding tokens lowers a log-probability, and no text is longer than its limit allows.
        self._largest_penalty_P = np.array(
            [length_penalty(limit + 1.0, alpha) for limit in task.limits.tolist()]
        )
        self._n_absent_P = np.zeros_like(task.limits) if n_absent is None else n_absent
        self._bar_P = np.full(len(task.limits), -np.inf)
        self.count_P = np.zeros(len(task.limits), np.int64)

    def add(self, prompt: int, hypothesis: Hypothesis) -> None:
        """Take in a finished text of a prompt."""
        found = self._found[prompt]
        found.append(hypothesis)
        self.count_P[prompt] += 1
        if len(found) >= self._n_best:
            found.sort(key=_rank)
            last = found[self._n_best - 1]
            # A text that lacks a concept is beaten by any that lacks none, whatever its score.
            is_whole = len(last.unplaced) <= self._n_absent_P[prompt]
            self._bar_P[prompt] = last.score if is_whole else -np.inf

    def is_beatable(
        self, prompt_R: NDArray[np.int64], log_p_R: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Whether unfinished texts can still come among the n best of their prompts.

        Args:
            prompt_R: the prompt of each.
            log_p_R: the log-probability of each so far.
        """
        bound_R = log_p_R / self._largest_penalty_P[prompt_R]
        is_short_R = self.count_P[prompt_R] < self._n_best
        beatable: NDArray[np.bool_] = is_short_R | (bound_R > self._bar_P[prompt_R])
        return beatable

    def best(self) -> list[list[Hypothesis]]:
        """The n best of each prompt, best first."""
        return [sorted(found, key=_rank)[: self._n_best] for found in self._found]


def _rank(hypothesis: Hypothesis) -> tuple[int, float]:
    return len(hypothesis.unplaced), -hypothesis.score
