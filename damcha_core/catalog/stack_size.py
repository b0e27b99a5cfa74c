"""Size and cost of a Transformer stack, from its numbers alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from damcha_core.catalog.attention_row import AttentionRow


@dataclass(frozen=True, kw_only=True)
class Stack:
    """A stack of pre-norm blocks around an attention, with a last norm (`TransformerPC`).

    Args:
        row: the attention.
        options: its options; those that are not given have their defaults.
        d_model: width D of a token.
        n_heads: number of heads.
        d_ff: width F of the feed-forward hidden layer.
        n_layers: number of blocks L.
    """

    row: AttentionRow
    options: Mapping[str, object]
    d_model: int
    n_heads: int
    d_ff: int
    n_layers: int

    def parameters(self) -> int:
        """Attention, and L (2 D F + F + D) for feed-forward parts, (2 L + 1) 2 D for norms."""
        attention = self.row.parameters(self.d_model, self.n_heads, self.n_layers, self.options)
        feed_forward = 2 * self.d_model * self.d_ff + self.d_ff + self.d_model
        norms = (2 * self.n_layers + 1) * 2 * self.d_model
        return attention + self.n_layers * feed_forward + norms

    def multiply_adds(self, n_tokens: int, *, is_causal: bool) -> int:
        """Forward multiply-adds for one sequence: attention, and L 2 N D F.

        Args:
            n_tokens: length N of the sequence.
            is_causal: whether tokens see only earlier ones.
        """
        attention = self.row.multiply_adds(
            self.d_model,
            self.n_heads,
            self.n_layers,
            self.options,
            n_tokens=n_tokens,
            is_causal=is_causal,
        )
        return attention + self.n_layers * 2 * n_tokens * self.d_model * self.d_ff
