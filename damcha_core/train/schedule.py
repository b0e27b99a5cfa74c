"""The learning-rate schedule: linear warm-up, cosine decay, a floor."""

from __future__ import annotations

import math


def lr_factor(update: int, *, warmup_steps: int, horizon_steps: int, min_lr_ratio: float) -> float:
    """Factor on every group's learning rate at an update.

    Source: "SGDR: Stochastic Gradient Descent with Warm Restarts" (arXiv 1608.03983), equation 5,
    without restarts.

    The floor is a ratio of the peak and not an absolute rate, so that groups with rates of their
    own (docs/method.md) all see one pure factor.

    Args:
        update: updates made so far; the first update has 0.
        warmup_steps: the factor grows linearly to 1 over these; 0 starts at 1.
        horizon_steps: updates after which the factor stays at the floor.
        min_lr_ratio: the floor, in [0, 1].

    Returns:
        A factor in (0, 1] during warm-up and in [min_lr_ratio, 1] after it.
    """
    if update >= horizon_steps:
        return min_lr_ratio
    if update < warmup_steps:
        return (update + 1) / warmup_steps
    progress = (update - warmup_steps) / (horizon_steps - warmup_steps)
    return min_lr_ratio + (1.0 - min_lr_ratio) * 0.5 * (1.0 + math.cos(math.pi * progress))
