"""The position-wise feed-forward network of a Transformer block."""

from __future__ import annotations

from torch import nn


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
