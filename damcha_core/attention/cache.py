"""What a causal layer keeps between the steps of decoding.

Shapes: B batch, H heads, M new tokens, N tokens so far, D width, K head width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from damcha_core.attention.carry import Carry
from damcha_core.errors import ShapeError

if TYPE_CHECKING:
    from damcha_core.attention.layer import AttentionLayer

FIRST_CAPACITY = 16
"""Tokens that a buffer has room for at first."""


class TokenBuffer:
    """Tensors joined along the token axis, in a buffer that doubles when it is full.

    The batch is the first axis. What is kept carries no gradient.

    Args:
        axis: the token axis, at least 1.
    """

    def __init__(self, axis: int) -> None:
        self.axis = axis
        self.length = 0
        self.room: Tensor | None = None

    def append(self, new: Tensor) -> Tensor:
        """Add the tokens of a step.

        Args:
            new: of the same shape as before except along the token axis.

        Returns:
            All tokens so far, a view that later steps leave as it is.
        """
        start, n_new = self.length, new.shape[self.axis]
        self.length += n_new
        if self.room is None or self.room.shape[self.axis] < self.length:
            self._grow(new)
        self.tokens().narrow(self.axis, start, n_new).copy_(new.detach())
        return self.tokens()

    def tokens(self) -> Tensor:
        """All tokens so far; there must have been a step."""
        assert self.room is not None
        return self.room.narrow(self.axis, 0, self.length)

    def reorder(self, rows_B: Tensor) -> None:
        """Replace the batch by these rows of it."""
        if self.room is None:
            return
        old, shape = self.room, list(self.room.shape)
        shape[0] = len(rows_B)
        self.room = self._empty(shape, old)
        # Only what is filled; a beam search spends much of its time here.
        filled = old.narrow(self.axis, 0, self.length)
        torch.index_select(filled, 0, rows_B, out=self.tokens())

    def _grow(self, like: Tensor) -> None:
        old, shape = self.room, list(like.shape)
        room = FIRST_CAPACITY if old is None else 2 * old.shape[self.axis]
        shape[self.axis] = max(room, self.length)
        self.room = self._empty(shape, like)
        if old is not None:
            self.room.narrow(self.axis, 0, old.shape[self.axis]).copy_(old)

    @staticmethod
    def _empty(shape: Sequence[int], like: Tensor) -> Tensor:
        # A buffer born in inference mode could not be written to outside of it.
        with torch.inference_mode(False):
            return torch.empty(shape, dtype=like.dtype, device=like.device)


class AttentionCache:
    """State of one layer; the layer makes it (`new_cache`) and fills it.

    Every attribute that is a TokenBuffer, a Tensor or a tuple of tensors has the batch as its
    first axis.

    Attributes:
        length: tokens of the steps that are over, masked ones included.
        batch_size: sequences B; None before the first step.
    """

    def __init__(self) -> None:
        self.length = 0
        self.batch_size: int | None = None

    def admit(self, x_BMD: Tensor) -> None:
        """Check that the tokens of a step belong to the sequences of the steps before.

        Raises:
            ShapeError: there is no token, or there are more or fewer sequences.
        """
        if x_BMD.shape[1] == 0:
            raise ShapeError("a step of decoding needs at least one token")
        if self.batch_size not in (None, x_BMD.shape[0]):
            raise ShapeError(
                f"the cache holds {self.batch_size} sequences, the step has {x_BMD.shape[0]}"
            )
        self.batch_size = x_BMD.shape[0]

    def reorder(self, rows_B: Tensor) -> None:
        """Replace the batch by these rows of it, as beam search does.

        Args:
            rows_B: numbers of the rows that go on, on the device of the tokens; one may occur
                several times, and there may be more or fewer than before.
        """
        for name, kept in vars(self).items():
            if isinstance(kept, TokenBuffer):
                kept.reorder(rows_B)
            elif isinstance(kept, Tensor):
                setattr(self, name, kept.index_select(0, rows_B))
            elif isinstance(kept, tuple):
                setattr(self, name, tuple(part.index_select(0, rows_B) for part in kept))
        if self.batch_size is not None:
            self.batch_size = len(rows_B)


class MaskedCache(AttentionCache):
    """A cache that knows which of its tokens are real."""

    def __init__(self) -> None:
        super().__init__()
        self.key_masks: TokenBuffer | None = None

    def append_mask(self, key_mask: Tensor | None, like_BMD: Tensor) -> Tensor | None:
        """Add the mask of a step.

        Args:
            key_mask: bool (B, M), True = real token. None: the new tokens are real.
            like_BMD: a tensor with the batch first, on the device of the mask; its size along
                axis `-2` is M.

        Returns:
            bool (B, N), or None as long as no step had a mask.
        """
        if key_mask is None and self.key_masks is None:
            return None
        n_batch, n_new = like_BMD.shape[0], like_BMD.shape[-2]
        if self.key_masks is None:
            self.key_masks = TokenBuffer(axis=1)
            self.key_masks.append(like_BMD.new_ones(n_batch, self.length, dtype=torch.bool))
        if key_mask is None:
            key_mask = like_BMD.new_ones(n_batch, n_new, dtype=torch.bool)
        return self.key_masks.append(key_mask)


class KeyValueCache(MaskedCache):
    """Keys and values of all tokens so far."""

    def __init__(self) -> None:
        super().__init__()
        self.keys = TokenBuffer(axis=2)
        self.values = TokenBuffer(axis=2)

    def append(
        self, k_BHMK: Tensor, v_BHMK: Tensor, key_mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Add the keys and values of a step.

        Args:
            k_BHMK: new keys.
            v_BHMK: new values; their heads may have another number and width.
            key_mask: bool (B, M), True = real token. None: the new tokens are real.

        Returns:
            Keys (B, H, N, K), values (B, H, N, K) and mask (B, N) or None of all tokens so far.
        """
        mask_BN = self.append_mask(key_mask, k_BHMK)
        return self.keys.append(k_BHMK), self.values.append(v_BHMK), mask_BN


class ReplayCache(MaskedCache):
    """The inputs of all tokens so far, for a layer that keeps no state: every step starts over."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs = TokenBuffer(axis=1)
        self.carried = TokenBuffer(axis=2)

    def replay(
        self, layer: AttentionLayer, x_BMD: Tensor, key_mask: Tensor | None, carry: Carry | None
    ) -> Tensor:
        """Run the layer on all tokens so far.

        Args:
            layer: whose `attend` is run, without a cache.
            x_BMD: tokens of the step, zeros where masked.
            key_mask: bool (B, M), True = real token. None: the new tokens are real.
            carry: what the layer before wrote for the tokens of the step, if anything.

        Returns:
            Tensor (B, M, D), the outputs of the new tokens.
        """
        new = slice(self.length, None)
        mask_BN = self.append_mask(key_mask, x_BMD)
        whole = None if carry is None else Carry()
        if carry is not None and whole is not None and carry.values_BHNK is not None:
            whole.values_BHNK = self.carried.append(carry.values_BHNK)
        out_BND = layer.attend(self.inputs.append(x_BMD), mask_BN, True, whole, None)
        if carry is not None and whole is not None and whole.values_BHNK is not None:
            carry.values_BHNK = whole.values_BHNK[:, :, new]
        return out_BND[:, new]


class StackCache:
    """The caches of a stack of layers, first layer first.

    Args:
        layers: one cache a layer.
    """

    def __init__(self, layers: Sequence[AttentionCache]) -> None:
        self.layers = tuple(layers)
        self.length = 0

    def reorder(self, rows_B: Tensor) -> None:
        """Replace the batch by these rows of it, in every layer."""
        for layer in self.layers:
            layer.reorder(rows_B)
