"""A causal language model over source and target, for texts that follow from texts.

Shape suffixes: B batch, N tokens, D width, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from damcha_core.attention.cache import StackCache
from damcha_core.attention.parameter_groups import parameter_groups
from damcha_core.errors import ShapeError
from damcha_core.models.sinusoidal_positions import SinusoidalPositions
from damcha_core.models.transformer import TransformerPC


class TextCache:
    """What decoding keeps of a batch of texts: the stack's caches, and their lengths.

    Args:
        stack: of `TransformerPC.new_cache`.
    """

    def __init__(self, stack: StackCache) -> None:
        self.stack = stack
        self.n_real_B: Tensor | None = None
        self.longest = 0

    def reorder(self, rows_B: Tensor) -> None:
        """Replace the batch by these rows of it, as beam search does."""
        self.stack.reorder(rows_B)
        if self.n_real_B is not None:
            self.n_real_B = self.n_real_B.index_select(0, rows_B)


class ConditionalLM(nn.Module):
    """Token embedding, sinusoidal positions, a causal stack, and the embedding again as the head.

    The embedding is multiplied by sqrt(D) on its way in and shared with the head ("Attention Is
    All You Need", arXiv 1706.03762, section 3.4). Positions count real tokens, so that padding
    before a text is as harmless as padding after it.

    Args:
        vocab_size: number of tokens V.
        transformer: a causal stack.
        dropout: rate of the embedded tokens, in [0, 1).

    Raises:
        ValueError: the stack is not causal.
    """

    def __init__(
        self, vocab_size: int, *, transformer: TransformerPC, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if not transformer.is_causal:
            raise ValueError("a language model needs a stack with is_causal=True")
        self.vocab_size = vocab_size
        self.embedding = nn.Embedding(vocab_size, transformer.d_model)
        # Rows of length about 1, so that the head's first scores are of order 1.
        nn.init.normal_(self.embedding.weight, std=transformer.d_model**-0.5)
        self.positions = SinusoidalPositions(transformer.d_model)
        self.dropout = nn.Dropout(dropout)
        self.transformer = transformer

    def forward(
        self,
        tokens_BN: Tensor,
        key_mask: Tensor | None = None,
        *,
        cache: TextCache | None = None,
        where_BN: Tensor | None = None,
    ) -> Tensor:
        """Scores (logits) of the token after each token.

        Args:
            tokens_BN: whole numbers below V; with a cache the new tokens alone.
            key_mask: bool (B, N), True for a real token, of any pattern; None: all are real.
            cache: of `new_cache`, for decoding step by step. Such a step computes no gradient.
            where_BN: bool, True where scores are wanted: the head is the dearest part of a small
                model, and a loss on the target alone needs it at half of the tokens.

        Returns:
            Logits (B, N, V), or (wanted tokens, V) row by row; those after masked tokens carry no
            meaning.

        Raises:
            ShapeError: tokens are not (B, N), or key_mask is of another shape.
            TypeError: key_mask is not boolean.
        """
        hidden_BND = self.hidden(tokens_BN, key_mask, cache=cache)
        return self.logits(hidden_BND if where_BN is None else hidden_BND[where_BN])

    def hidden(
        self, tokens_BN: Tensor, key_mask: Tensor | None = None, *, cache: TextCache | None = None
    ) -> Tensor:
        """What the head reads: normalised tokens (B, N, D); arguments as for `forward`."""
        if tokens_BN.dim() != 2:
            raise ShapeError(
                f"tokens have shape {tuple(tokens_BN.shape)}; expected [batch, tokens]"
            )
        positions_BN, n_positions = self._place(tokens_BN, key_mask, cache)
        embedded_BND = self.embedding(tokens_BN) * self.transformer.d_model**0.5
        x_BND = embedded_BND + self.positions(positions_BN, n_positions, dtype=embedded_BND.dtype)
        return self.transformer(
            self.dropout(x_BND), key_mask, cache=None if cache is None else cache.stack
        )

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores (..., V) of the next token from `hidden` (..., D)."""
        return nn.functional.linear(hidden, self.embedding.weight)

    def new_cache(self) -> TextCache:
        """An empty cache for decoding one batch of texts step by step."""
        return TextCache(self.transformer.new_cache())

    def _place(
        self, tokens_BN: Tensor, key_mask: Tensor | None, cache: TextCache | None
    ) -> tuple[Tensor, int]:
        """Positions of the new tokens, and a number that all of them are below."""
        n_batch, n_new = tokens_BN.shape
        if key_mask is not None and key_mask.shape != tokens_BN.shape:
            raise ShapeError(
                f"key_mask has shape {tuple(key_mask.shape)}, the tokens {tuple(tokens_BN.shape)}"
            )
        if key_mask is None:
            count_BN = torch.arange(1, n_new + 1, device=tokens_BN.device).expand(n_batch, n_new)
        else:
            count_BN = key_mask.long().cumsum(dim=1)
        n_before = 0
        if cache is not None:
            if cache.n_real_B is not None:
                count_BN = count_BN + cache.n_real_B[:, None]
            cache.n_real_B = count_BN[:, -1]
            n_before = cache.longest
            cache.longest += n_new
        # A masked token before the first real one has no position; any will do.
        return (count_BN - 1).clamp_min(0), n_before + n_new

    def parameter_groups(self, *, lr: float, weight_decay: float = 0.0) -> list[dict[str, Any]]:
        """Optimiser groups with each parameter's own learning rate and decay (docs/method.md)."""
        return parameter_groups(self, lr=lr, weight_decay=weight_decay)
