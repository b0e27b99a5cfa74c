"""What a search asks of a model: the logits of the next token.

Shapes: B prompts, R rows (texts that go on), N tokens so far, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from damcha_core.errors import ShapeError
from damcha_core.models.conditional_lm import ConditionalLM


class NextTokenModel(Protocol):
    """Texts that grow by one token a step."""

    @property
    def vocab_size(self) -> int:
        """Number of tokens V."""

    def begin(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """Start a text after each prompt; what was before is forgotten.

        Args:
            prompts: token ids, at least one prompt and one token each.

        Returns:
            Logits (B, V) of the token after each prompt, on any device.
        """

    def advance(self, rows_R: Tensor, tokens_R: Tensor) -> Tensor:
        """Add one token to each text that goes on.

        Args:
            rows_R: the rows of the call before that go on, int64 on the CPU; one may occur
                several times.
            tokens_R: the token added to each, int64 on the CPU.

        Returns:
            Logits (R, V) of the token after these.
        """


def left_padded(prompts: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor | None]:
    """Prompts as one tensor whose last column is the last token of each.

    Args:
        prompts: token ids, at least one prompt and one token each.
        pad_id: what fills the left.

    Returns:
        Tokens (B, N) int64, and bool (B, N), True for a real token; None: all are real.

    Raises:
        ShapeError: there is no prompt, or an empty one.
    """
    lengths_B = np.array([len(prompt) for prompt in prompts], dtype=np.int64)
    if not len(lengths_B) or lengths_B.min() == 0:
        raise ShapeError("a search needs at least one prompt, and one token in each")
    places_N = np.arange(lengths_B.max())
    mask_BN = places_N >= (lengths_B.max() - lengths_B)[:, None]
    tokens_BN = np.full(mask_BN.shape, pad_id, dtype=np.int64)
    tokens_BN[mask_BN] = np.concatenate([np.asarray(prompt, np.int64) for prompt in prompts])
    return torch.from_numpy(tokens_BN), None if mask_BN.all() else torch.from_numpy(mask_BN)


class CachedNextTokens:
    """A language model that keeps the state of its layers between the steps.

    Args:
        model: in evaluation mode.
        pad_id: any token id; pads are masked, so the logits do not depend on it.
    """

    def __init__(self, model: ConditionalLM, pad_id: int) -> None:
        self.model = model
        self.pad_id = pad_id
        self.vocab_size = model.vocab_size
        self._device = next(model.parameters()).device
        self._cache = model.new_cache()

    def begin(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """As `NextTokenModel.begin`.

        Raises:
            ShapeError: there is no prompt, or an empty one.
        """
        tokens_BN, mask_BN = left_padded(prompts, self.pad_id)
        self._cache = self.model.new_cache()
        return self._step(tokens_BN, mask_BN)

    def advance(self, rows_R: Tensor, tokens_R: Tensor) -> Tensor:
        """As `NextTokenModel.advance`."""
        # The rows are on the CPU, so asking costs no wait for the device; copying the state does.
        if not torch.equal(rows_R, torch.arange(self._n_rows)):
            self._cache.reorder(rows_R.to(self._device))
        return self._step(tokens_R[:, None], None)

    def _step(self, tokens_RN: Tensor, mask_RN: Tensor | None) -> Tensor:
        self._n_rows = len(tokens_RN)
        mask_RN = None if mask_RN is None else mask_RN.to(self._device)
        hidden_RND = self.model.hidden(tokens_RN.to(self._device), mask_RN, cache=self._cache)
        return self.model.logits(hidden_RND[:, -1])


class ReplayedNextTokens:
    """A language model that reads the whole text again at every step: slow, and no state to trust.

    Args:
        model: in evaluation mode.
        pad_id: any token id; pads are masked, so the logits do not depend on it.
    """

    def __init__(self, model: ConditionalLM, pad_id: int) -> None:
        self.model = model
        self.pad_id = pad_id
        self.vocab_size = model.vocab_size
        self._device = next(model.parameters()).device

    def begin(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """As `NextTokenModel.begin`.

        Raises:
            ShapeError: there is no prompt, or an empty one.
        """
        self._tokens_RN, self._mask_RN = left_padded(prompts, self.pad_id)
        return self._logits()

    def advance(self, rows_R: Tensor, tokens_R: Tensor) -> Tensor:
        """As `NextTokenModel.advance`."""
        self._tokens_RN = torch.cat([self._tokens_RN[rows_R], tokens_R[:, None]], 1)
        if self._mask_RN is not None:
            real_R1 = torch.ones(len(rows_R), 1, dtype=torch.bool)
            self._mask_RN = torch.cat([self._mask_RN[rows_R], real_R1], 1)
        return self._logits()

    def _logits(self) -> Tensor:
        mask_RN = None if self._mask_RN is None else self._mask_RN.to(self._device)
        hidden_RND = self.model.hidden(self._tokens_RN.to(self._device), mask_RN)
        return self.model.logits(hidden_RND[:, -1])
