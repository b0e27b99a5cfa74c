"""The Transformer stack with a choice of attention.

Shape suffixes: B batch, N tokens, D width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from damcha_core.attention.build import build_attention
from damcha_core.attention.cache import AttentionCache, StackCache
from damcha_core.attention.carry import Carry
from damcha_core.attention.layer import AttentionLayer
from damcha_core.attention.parameter_groups import parameter_groups
from damcha_core.catalog.attentions import attention_row
from damcha_core.catalog.loading import load
from damcha_core.errors import ShapeError
from damcha_core.models.block import NORM_EPS, Block

PUBLISHED_MLP_HIDDEN = (256, 512)


class TransformerPC(nn.Module):
    """A pre-norm Transformer stack over tokens, with DAMCHA attention unless told otherwise.

    The first eight arguments are the published quick start. `use_M=False` is standard multi-head
    attention (the two after it are then ignored), `use_mlp=False` a static matrix M,
    `share_mlp=False` one generator a layer instead of one for the stack. `attention` names any row
    of the attention catalogue instead.

    Args:
        d_model: width D of the tokens.
        n_heads: heads H; they divide D.
        d_ff: width of the feed-forward hidden layer.
        n_layers: number of blocks.
        use_M: False replaces DAMCHA by multi-head attention.
        use_mlp: False replaces the generator by a learned constant M.
        share_mlp: False gives every layer a generator of its own.
        mlp_hidden: widths of the generator's hidden layers, where the attention has one.
        attention: name of a catalogue row; excludes use_M, use_mlp and share_mlp.
        attention_options: the row's own options, such as {"structure": "psd"}; they beat
            mlp_hidden.
        is_causal: True lets a token attend to itself and earlier tokens alone.
        dropout: rate in [0, 1).

    Raises:
        ValueError: `attention` is given together with a non-default use_M, use_mlp or share_mlp.
        ShapeError: n_heads does not divide d_model.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int,
        n_layers: int,
        use_M: bool = True,
        use_mlp: bool = True,
        share_mlp: bool = True,
        mlp_hidden: Sequence[int] = PUBLISHED_MLP_HIDDEN,
        *,
        attention: str | None = None,
        attention_options: Mapping[str, Any] | None = None,
        is_causal: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if attention is not None and not (use_M and use_mlp and share_mlp):
            raise ValueError(
                f'attention="{attention}" names the layer; leave use_M, use_mlp and share_mlp at '
                "their defaults, or leave attention out"
            )
        if d_model % n_heads:
            raise ShapeError(f"n_heads {n_heads} does not divide d_model {d_model}")
        options = dict(attention_options or {})
        attention = attention or _published_attention(use_M, use_mlp, share_mlp)
        if tuple(mlp_hidden) != PUBLISHED_MLP_HIDDEN and _has_generator(attention):
            options.setdefault("mlp_hidden", tuple(mlp_hidden))
        stack = build_attention(
            attention, d_model, n_heads, n_layers, dropout=dropout, options=options
        )
        self.d_model = d_model
        self.is_causal = is_causal
        # A generator shared by the layers is registered here, once; the layers only borrow it.
        self.shared = stack.shared
        self.blocks = nn.ModuleList(
            Block(layer, d_model=d_model, d_ff=d_ff, dropout=dropout) for layer in stack.layers
        )
        self.norm = nn.LayerNorm(d_model, eps=NORM_EPS)

    def forward(
        self, x_BND: Tensor, key_mask: Tensor | None = None, *, cache: StackCache | None = None
    ) -> Tensor:
        """Map tokens to tokens.

        Args:
            x_BND: tokens; with a cache the new tokens alone, at least one.
            key_mask: bool [B, N], True for a real token; None: all are real.
            cache: of `new_cache`, for decoding step by step: the new tokens follow those it has
                seen and are added to it. Such a step computes no gradient.

        Returns:
            Tokens [B, N, D], normalised; rows of masked tokens carry no meaning. With a cache, the
            rows of the new tokens; they are those of a pass over all tokens.

        Raises:
            ShapeError: x is not [B, N, d_model], key_mask is not [B, N], or the cache holds
                another number of layers or sequences.
            TypeError: key_mask is not boolean, or a layer's cache is of another kind of layer.
            ValueError: there is a cache and the stack is not causal.
        """
        if x_BND.dim() != 3 or x_BND.shape[-1] != self.d_model:
            raise ShapeError(
                f"x has shape {tuple(x_BND.shape)}; expected [batch, tokens, {self.d_model}]"
            )
        if cache is None:
            return self._run(x_BND, key_mask, [None] * len(self.blocks))
        if not self.is_causal:
            raise ValueError("decoding with a cache needs a stack with is_causal=True")
        if len(cache.layers) != len(self.blocks):
            raise ShapeError(
                f"the cache is one of {len(cache.layers)} layers, the stack has {len(self.blocks)}"
            )
        with torch.no_grad():
            y_BND = self._run(x_BND, key_mask, cache.layers)
        cache.length += x_BND.shape[1]
        return y_BND

    def _run(
        self, x_BND: Tensor, key_mask: Tensor | None, caches: Sequence[AttentionCache | None]
    ) -> Tensor:
        carry = Carry() if any(layer.uses_carry for layer in self.attentions) else None
        for block, cache in zip(self.blocks, caches, strict=True):
            x_BND = block(
                x_BND, key_mask=key_mask, is_causal=self.is_causal, carry=carry, cache=cache
            )
        return self.norm(x_BND)

    @property
    def attentions(self) -> list[AttentionLayer]:
        """The attention of each block, first block first."""
        return [cast(Block, block).attention for block in self.blocks]

    def new_cache(self) -> StackCache:
        """An empty cache for decoding one batch of sequences step by step."""
        return StackCache([layer.new_cache() for layer in self.attentions])

    def parameter_groups(self, *, lr: float, weight_decay: float = 0.0) -> list[dict[str, Any]]:
        """Optimiser groups with each parameter's own learning rate and decay (docs/method.md)."""
        return parameter_groups(self, lr=lr, weight_decay=weight_decay)


def _has_generator(attention: str) -> bool:
    row = attention_row(attention)
    return row.options is not None and "mlp_hidden" in load(row.options).model_fields


def _published_attention(use_metric: bool, use_mlp: bool, share_mlp: bool) -> str:
    if not use_metric:
        return "mha"
    source = "damcha" if use_mlp else "damcha-static"
    return source if share_mlp else f"{source}-unshared"
