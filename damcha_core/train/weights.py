"""Putting stored weights into a model, all of them or none."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from damcha_core.errors import CheckpointError

CONVERTIBLE = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
"""Number formats of weights that may be read into one another."""


def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Load a state dict that must fit a model name by name and shape by shape.

    Args:
        model: takes the values in its own number format.
        weights: state dict as stored.

    Raises:
        CheckpointError: a tensor is missing, left over, of another shape or not of numbers.
    """
    own = model.state_dict()
    for name in sorted(own.keys() | weights.keys()):
        if name not in weights:
            raise CheckpointError(f"the checkpoint has no tensor {name}, which the model needs")
        if name not in own:
            raise CheckpointError(f"the checkpoint holds a tensor {name} that the model lacks")
        if own[name].shape != weights[name].shape:
            raise CheckpointError(
                f"the checkpoint's {name} has shape {tuple(weights[name].shape)}, "
                f"the model's has {tuple(own[name].shape)}"
            )
        formats = {own[name].dtype, weights[name].dtype}
        if len(formats) > 1 and not formats <= CONVERTIBLE:
            raise CheckpointError(f"the checkpoint's {name} holds {weights[name].dtype} numbers")
    model.load_state_dict(dict(weights))
