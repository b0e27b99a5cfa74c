"""Where a NaN or an infinity came from."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from damcha_core.tasks.task import Batch, Task


def first_nonfinite_module(task: Task, model: nn.Module, batch: Batch) -> str:
    """Name of the first module, in order of execution, whose output is not finite.

    Runs the batch once more without gradients. Dropout draws anew, so where the fault depends on
    one draw the answer can be "the loss itself".

    Args:
        task: gives the loss.
        model: the model, in the mode it was in.
        batch: the batch that went wrong.
    """
    found: list[str] = []

    def watch(name: str) -> Any:
        def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor) and not found and not torch.isfinite(output).all():
                found.append(name or "the model")

        return hook

    handles = [m.register_forward_hook(watch(name)) for name, m in model.named_modules()]
    try:
        with torch.no_grad():
            task.loss(model, batch)
    finally:
        for handle in handles:
            handle.remove()
    for name, tensor in batch.items():
        if not torch.isfinite(tensor).all():
            return f"the input ({name})"
    return found[0] if found else "the loss itself"


def first_nonfinite_gradient(model: nn.Module) -> str:
    """Name of the first parameter whose gradient is not finite."""
    for name, parameter in model.named_parameters():
        if parameter.grad is not None and not torch.isfinite(parameter.grad).all():
            return name
    return "the norm of all gradients"
