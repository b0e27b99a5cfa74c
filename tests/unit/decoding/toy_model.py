"""A language model that is a table: every text has logits of its own."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from damcha_core.decoding.hypothesis import Hypothesis, length_penalty

PAD, END, FIRST = 0, 1, 2
"""Token 0 is a mark that never comes, 1 the end mark; text tokens start at 2."""


class TableModel:
    """Random logits for every prompt (its first token is the seed) and every text.

    Args:
        vocab_size: tokens, the two marks included.
        end_logit: added to the end mark's logits: below 0 makes it rare.
        dtype: of the logits.
        scale: spread of the logits.
    """

    def __init__(
        self,
        vocab_size: int,
        end_logit: float = 0.0,
        dtype: torch.dtype = torch.float64,
        scale: float = 1.0,
    ) -> None:
        self.vocab_size = vocab_size
        self.end_logit = end_logit
        self.dtype = dtype
        self.scale = scale
        self.n_rows: list[int] = []

    def logits(self, seed: int, text: Sequence[int]) -> np.ndarray:
        """The logits after a text; those of the mark are the largest of all."""
        drawn = np.random.default_rng([seed, *text]).normal(size=self.vocab_size) * self.scale
        drawn[END] += self.end_logit
        drawn[PAD] = 9.0
        return drawn

    def begin(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        self.texts = [(prompt[0], ()) for prompt in prompts]
        return self._step()

    def advance(self, rows_R: Tensor, tokens_R: Tensor) -> Tensor:
        assert rows_R.dtype == tokens_R.dtype == torch.int64
        steps = zip(rows_R.tolist(), tokens_R.tolist(), strict=True)
        self.texts = [(self.texts[r][0], (*self.texts[r][1], token)) for r, token in steps]
        return self._step()

    def _step(self) -> Tensor:
        self.n_rows.append(len(self.texts))
        rows = np.stack([self.logits(seed, text) for seed, text in self.texts])
        return torch.from_numpy(rows).to(self.dtype)

    def log_p(self, seed: int, text: Sequence[int]) -> np.ndarray:
        """Log-probabilities after a text, over all tokens but the mark."""
        logits = self.logits(seed, text)[END:]
        largest = logits.max()
        total = largest + np.log(np.exp(logits - largest).sum())
        return np.concatenate([[-np.inf], logits - total])

    def text_log_p(self, seed: int, text: Sequence[int]) -> float:
        """Log-probability of a text and the end mark."""
        whole = [*text, END]
        return float(sum(self.log_p(seed, whole[:i])[whole[i]] for i in range(len(whole))))


def all_texts(model: TableModel, seed: int, limit: int, alpha: float) -> list[Hypothesis]:
    """Every text of at most so many tokens, best score first."""
    found: list[Hypothesis] = []
    known = {(): 0.0}
    for n in range(limit + 1):
        for text in itertools.product(range(FIRST, model.vocab_size), repeat=n):
            after = model.log_p(seed, text)
            log_p = known[text] + float(after[END])
            found.append(Hypothesis(text, log_p, log_p / length_penalty(n + 1, alpha)))
            if n < limit:
                known |= {(*text, t): known[text] + float(after[t]) for t in range(2, len(after))}
    return sorted(found, key=lambda hypothesis: -hypothesis.score)
