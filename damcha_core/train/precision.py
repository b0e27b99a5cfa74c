"""Number formats of a run: what the model computes in, and the loss scaler that float16 needs."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from damcha_core.errors import UsageError

AUTOCAST = {"bfloat16": torch.bfloat16, "float16": torch.float16}


class Precision:
    """Casting of a model, autocast around its forward pass, and the gradient scaler.

    Args:
        name: "float32", "float64", or mixed "bfloat16" or "float16" (weights stay float32).
        device: where the model runs.

    Raises:
        UsageError: the device does not have that format.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        if name == "float16" and device.type != "cuda":
            raise UsageError(
                f"train.precision float16 needs a CUDA device, not {device.type}; "
                "use bfloat16 or float32"
            )
        if name == "float64" and device.type == "mps":
            raise UsageError("train.precision float64 does not exist on mps; use float32 or cpu")
        if name == "bfloat16" and device.type == "cuda" and not torch.cuda.is_bf16_supported():
            raise UsageError("this GPU has no bfloat16; use train.precision float16 or float32")
        self.name = name
        self.device = device
        self.scaler = torch.amp.GradScaler(device.type, enabled=name == "float16")

    @property
    def dtype(self) -> torch.dtype:
        """Format of the weights."""
        return torch.float64 if self.name == "float64" else torch.float32

    def prepare(self, model: nn.Module) -> nn.Module:
        """Move a model to the device and the format of its weights."""
        return model.to(device=self.device, dtype=self.dtype)

    def autocast(self) -> AbstractContextManager[object]:
        """Context of a forward pass in training."""
        if self.name in AUTOCAST:
            return torch.autocast(self.device.type, AUTOCAST[self.name])
        return nullcontext()
