"""Initial values of the projections around an attention, one rule for every layer.

The rule is that of torch.nn.MultiheadAttention, so that two layers of the catalogue start from
the same scale and differ in the attention alone.
"""

from __future__ import annotations

import math

from torch import nn


def input_projection(d_model: int, n_parts: int, *, width: int = 0, bias: bool = True) -> nn.Linear:
    """Projection of the tokens to queries, keys, values or gates, biases zero.

    Xavier-uniform on the packed (3D, D) matrix: the bound is sqrt(6 / (4 D)), whichever of the
    three parts a layer has and however wide they are.

    Args:
        d_model: width D of the tokens.
        n_parts: how many of queries, keys and values one packed matrix makes, at least 1.
        width: features of each part; 0: D.
        bias: whether the projection has biases.
    """
    linear = nn.Linear(d_model, n_parts * (width or d_model), bias=bias)
    bound = math.sqrt(6.0 / (4 * d_model))
    nn.init.uniform_(linear.weight, -bound, bound)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear


def output_projection(d_model: int, *, bias: bool = True) -> nn.Linear:
    """Projection of the merged heads: uniform within 1 / sqrt(D), biases zero.

    Args:
        d_model: width D of the tokens.
        bias: whether the projection has biases.
    """
    linear = nn.Linear(d_model, d_model, bias=bias)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear
