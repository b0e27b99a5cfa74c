"""The pre-norm Transformer block around any attention layer, and its feed-forward network.

Shape suffixes: B batch, N tokens, D width.
"""

from __future__ import annotations

from torch import Tensor, nn

from damcha_core.attention.cache import AttentionCache
from damcha_core.attention.carry import Carry
from damcha_core.attention.layer import AttentionLayer

NORM_EPS = 1e-5


class FeedForward(nn.Sequential):
    """Tokens [..., D] to [..., D]: linear, exact (erf) GELU, linear, with biases.

    Source: "Attention Is All You Need" (arXiv 1706.03762), section 3.3, with GELU for ReLU.

    Args:
        d_model: width D of the tokens.
        d_ff: width of the hidden layer.
        dropout: rate in [0, 1), applied after the activation.
    """

    def __init__(self, d_model: int, d_ff: int, *, dropout: float = 0.0) -> None:
        super().__init__(
            nn.Linear(d_model, d_ff), nn.GELU(), nn.Dropout(dropout), nn.Linear(d_ff, d_model)
        )


class Block(nn.Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x)).

    Args:
        attention: any layer of the attention catalogue, of width d_model.
        d_model: width D of the tokens.
        d_ff: width of the feed-forward hidden layer.
        dropout: rate in [0, 1) on both residual branches and inside the feed-forward network.
    """

    def __init__(
        self, attention: AttentionLayer, *, d_model: int, d_ff: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(d_model, eps=NORM_EPS)
        self.attention = attention
        self.feed_forward_norm = nn.LayerNorm(d_model, eps=NORM_EPS)
        self.feed_forward = FeedForward(d_model, d_ff, dropout=dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x_BND: Tensor,
        *,
        key_mask: Tensor | None = None,
        is_causal: bool = False,
        carry: Carry | None = None,
        cache: AttentionCache | None = None,
    ) -> Tensor:
        """Map tokens [B, N, D] to [B, N, D]; masks, carry and cache as in AttentionLayer."""
        attended_BND = self.attention(
            self.attention_norm(x_BND),
            key_mask=key_mask,
            is_causal=is_causal,
            carry=carry,
            cache=cache,
        )
        x_BND = x_BND + self.dropout(attended_BND)
        return x_BND + self.dropout(self.feed_forward(self.feed_forward_norm(x_BND)))
