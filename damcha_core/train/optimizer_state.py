"""AdamW's state as named tensors, and back, checked against the model it is for."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from damcha_core.errors import CheckpointError

PREFIX = "optimizer/"
MOMENTS = ("exp_avg", "exp_avg_sq")


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The state of every parameter, as optimizer/<parameter>/<what>."""
    names = {id(p): name for name, p in model.named_parameters()}
    return {
        f"{PREFIX}{names[id(parameter)]}/{key}": torch.as_tensor(value)
        for parameter, state in optimizer.state.items()
        for key, value in state.items()
    }


def restore_optimizer(
    optimizer: torch.optim.Optimizer,
    model: nn.Module,
    tensors: Mapping[str, Tensor],
    *,
    updates: int,
) -> None:
    """Give a fresh AdamW the state of a stored one.

    Args:
        optimizer: of the model, with the groups it was built with.
        model: names its parameters.
        tensors: as optimizer_tensors made them; others are ignored.
        updates: updates made before; 0 allows that there is no state yet.

    Raises:
        CheckpointError: a state is missing, left over, or of another shape than its parameter.
    """
    stored = {n.removeprefix(PREFIX): t for n, t in tensors.items() if n.startswith(PREFIX)}
    places = {id(p): i for i, p in enumerate(_parameters(optimizer))}
    state = optimizer.state_dict()
    state["state"] = {}
    for name, parameter in model.named_parameters():
        entry = {key: stored.pop(f"{name}/{key}", None) for key in ("step", *MOMENTS)}
        if not updates and all(value is None for value in entry.values()):
            continue
        for key, value in entry.items():
            shape = parameter.shape if key in MOMENTS else torch.Size([])
            if value is None or value.shape != shape or not value.is_floating_point():
                raise CheckpointError(f"its optimiser state {key} of {name} does not fit the model")
        state["state"][places[id(parameter)]] = entry
    if stored:
        raise CheckpointError(f"its optimiser state {min(stored)} belongs to no parameter")
    optimizer.load_state_dict(state)


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]
