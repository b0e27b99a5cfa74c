"""The contract every attention layer keeps: shapes, masks, and what a masked token may do.

Shapes: B batch, N tokens, D width, H heads, K head width.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from damcha_core.attention.cache import AttentionCache, ReplayCache
from damcha_core.attention.carry import Carry
from damcha_core.errors import ShapeError


class AttentionLayer(nn.Module):
    """Base of the layers of the catalogue; a layer implements `attend` alone.

    A layer that can decode step by step names its `cache_class` and minds the cache in `attend`;
    one that does not is run anew on all tokens of a sequence at every step (`ReplayCache`).

    Args:
        d_model: width D of the tokens, a multiple of n_heads.
        n_heads: number of heads H, at least 1.
        dropout: probability with which an attention weight is dropped in training, in [0, 1).

    Raises:
        ValueError: d_model or n_heads is below 1, H does not divide D, or dropout is outside
            [0, 1).

    Attributes:
        uses_carry: whether the layer reads and writes the `Carry` of a pass.
        cache_class: what the layer keeps between the steps of decoding.
    """

    uses_carry: ClassVar[bool] = False
    cache_class: ClassVar[type[AttentionCache]] = ReplayCache

    def __init__(self, d_model: int, n_heads: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.d_model = d_model
        self.n_heads = n_heads
        self.d_head = head_width(d_model, n_heads)
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout must be at least 0 and below 1, got {dropout}")
        self.dropout = dropout

    def forward(
        self,
        x_BND: Tensor,
        *,
        key_mask: Tensor | None = None,
        is_causal: bool = False,
        carry: Carry | None = None,
        cache: AttentionCache | None = None,
    ) -> Tensor:
        """Attend from every token to the tokens it may see.

        Args:
            x_BND: tokens, of the dtype of the parameters or any under autocast; with a cache the
                new tokens alone, at least one.
            key_mask: bool (B, N), True = real token. A masked token, whatever it holds, moves no
                other output by a bit. None: every token is real.
            is_causal: True lets a token see itself and the tokens before it, no later one.
            carry: what the layer before left and the layer after will find, where a layer uses
                it. None: the layer is the first of its stack.
            cache: of this layer's `new_cache`, for decoding step by step: the new tokens come
                after those it has seen and are added to it. Such a step computes no gradient.

        Returns:
            Tensor (B, N, D). A token that may see none has a zero head output, so the bias of the
            output projection alone. With a cache, the rows of the new tokens; they are those of a
            pass over all tokens.

        Raises:
            ShapeError: x is not (B, N, d_model), or key_mask is not (B, N).
            TypeError: key_mask is not a bool tensor.
            ValueError: there is a cache and the layer is not causal.
            TypeError: the cache is not one of this layer.
            ShapeError: the step has no token, or the cache holds another number of sequences.
        """
        x_BND = self.check(x_BND, key_mask)
        if cache is None:
            return self.attend(x_BND, key_mask, is_causal, carry, None)
        if not is_causal:
            raise ValueError("decoding with a cache needs is_causal=True")
        if not isinstance(cache, self.cache_class):
            raise TypeError(
                f"{type(self).__name__} decodes with the cache of its new_cache(), "
                f"got {type(cache).__name__}"
            )
        cache.admit(x_BND)
        with torch.no_grad():
            if isinstance(cache, ReplayCache):
                out_BND = cache.replay(self, x_BND, key_mask, carry)
            else:
                out_BND = self.attend(x_BND, key_mask, True, carry, cache)
        cache.length += x_BND.shape[1]
        return out_BND

    def new_cache(self) -> AttentionCache:
        """An empty cache for decoding one batch of sequences step by step."""
        return self.cache_class()

    def check(self, x_BND: Tensor, key_mask: Tensor | None) -> Tensor:
        """The tokens with zeros in place of the masked ones, once both are found to fit.

        Raises:
            ShapeError: x is not (B, N, d_model), or key_mask is not (B, N).
            TypeError: key_mask is not a bool tensor.
        """
        if x_BND.dim() != 3 or x_BND.shape[-1] != self.d_model:
            raise ShapeError(
                f"tokens must have the shape (batch, tokens, {self.d_model}), "
                f"got {tuple(x_BND.shape)}"
            )
        if key_mask is not None:
            check_key_mask(key_mask, x_BND)
            return keep_real(x_BND, key_mask)
        return x_BND

    def attend(
        self,
        x_BND: Tensor,
        key_mask: Tensor | None,
        is_causal: bool,
        carry: Carry | None,
        cache: AttentionCache | None,
    ) -> Tensor:
        """The layer's own computation, on checked inputs whose masked tokens are zeros.

        Args:
            x_BND: tokens; with a cache the new ones.
            key_mask: bool (B, N) for these tokens. None: every token is real.
            is_causal: as in `forward`; True where there is a cache.
            carry: to read and then to write, where the layer uses it.
            cache: None, or of `cache_class` with the tokens before these, `cache.length` of them;
                the layer adds these, `forward` updates the length.
        """
        raise NotImplementedError

    def split_heads(self, x_BND: Tensor) -> Tensor:
        """View (B, N, D) as (B, H, N, K): head i owns the features i*K .. (i+1)*K - 1."""
        return x_BND.view(*x_BND.shape[:2], self.n_heads, self.d_head).transpose(1, 2)

    def extra_repr(self) -> str:
        return f"d_model={self.d_model}, n_heads={self.n_heads}, dropout={self.dropout}"


def head_width(d_model: int, n_heads: int) -> int:
    """Width K of one head.

    Raises:
        ValueError: d_model or n_heads is below 1, or n_heads does not divide d_model.
    """
    if d_model < 1 or n_heads < 1:
        raise ValueError(f"d_model and n_heads must be at least 1, got {d_model} and {n_heads}")
    if d_model % n_heads:
        raise ValueError(f"n_heads must divide d_model, got d_model {d_model}, n_heads {n_heads}")
    return d_model // n_heads


def merge_heads(x_BHNK: Tensor) -> Tensor:
    """Lay the heads side by side: (B, H, N, K) to (B, N, D)."""
    return x_BHNK.transpose(1, 2).flatten(2)


def check_key_mask(key_mask: Tensor, x_BND: Tensor) -> None:
    """Refuse a mask that is not bool or does not fit the tokens.

    Raises:
        TypeError: the mask is not a bool tensor.
        ShapeError: the mask is not (B, N).
    """
    if not isinstance(key_mask, Tensor) or key_mask.dtype != torch.bool:
        kind = key_mask.dtype if isinstance(key_mask, Tensor) else type(key_mask).__name__
        raise TypeError(f"key_mask must be a bool tensor, True = real token, got {kind}")
    if key_mask.shape != x_BND.shape[:2]:
        raise ShapeError(
            f"key_mask must have the shape {tuple(x_BND.shape[:2])} of (batch, tokens), "
            f"got {tuple(key_mask.shape)}"
        )


def keep_real(x_BND: Tensor, key_mask_BN: Tensor) -> Tensor:
    """Zeros in place of the masked tokens, by selection: NaN times zero would stay NaN."""
    return torch.where(key_mask_BN.unsqueeze(-1), x_BND, x_BND.new_zeros(()))
