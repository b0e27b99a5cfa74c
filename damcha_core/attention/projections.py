"""Initial values of the projections around an attention, one rule for every layer.

The rule is that of torch.nn.MultiheadAttention, so that two layers of the catalogue start from
the same scale and differ in the attention alone.
"""

from __future__ import annotations

import math

from torch import nn


def input_projection(d_model: int, n_parts: int) -> nn.Linear:
    """Projection of the tokens to queries, keys or values, biases zero.

    Xavier-uniform on the packed (3D, D) matrix: the bound is sqrt(6 / (4 D)), whichever of the
    three parts a layer has.

    Args:
        d_model: width D of the tokens.
        n_parts: how many of queries, keys and values one packed matrix makes, 1 to 3.
    """
    linear = nn.Linear(d_model, n_parts * d_model)
    bound = math.sqrt(6.0 / (4 * d_model))
    nn.init.uniform_(linear.weight, -bound, bound)
    nn.init.zeros_(linear.bias)
    return linear


def output_projection(d_model: int) -> nn.Linear:
    """Projection of the merged heads: uniform within 1 / sqrt(D), biases zero."""
    linear = nn.Linear(d_model, d_model)
    nn.init.zeros_(linear.bias)
    return linear
