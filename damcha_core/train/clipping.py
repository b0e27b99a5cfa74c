"""Gradient clipping that counts what a compact parameter stands for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm


def clip_gradients(groups: Sequence[dict[str, Any]], max_norm: float) -> Tensor:
    """Scale all gradients so that their weighted norm is at most max_norm.

    The square of a group's norm enters `norm_multiplicity` times: a head-form generator layer
    stands for H equal blocks of the matrix form, and clipping must see all of them to leave both
    forms on one trajectory (docs/method.md).

    Args:
        groups: optimiser groups with "params" and "norm_multiplicity".
        max_norm: bound on the norm; 0 measures and leaves the gradients as they are.

    Returns:
        The norm before clipping, a scalar; inf or nan where a gradient is not finite.
    """
    squares = []
    for group in groups:
        gradients = [p.grad for p in group["params"] if p.grad is not None]
        if gradients:
            squares.append(get_total_norm(gradients).square() * group["norm_multiplicity"])
    total = torch.stack(squares).sum().sqrt() if squares else torch.zeros(())
    if max_norm > 0 and math.isfinite(total.item()):
        parameters = [p for group in groups for p in group["params"] if p.grad is not None]
        clip_grads_with_norm_(parameters, max_norm, total)
    return total
