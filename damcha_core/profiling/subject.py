"""What is measured: a Transformer stack around one attention, with its optimiser.

Shapes: B batch, N tokens, D width.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import torch
from torch import Tensor, nn

from damcha_core.attention.parameter_groups import parameter_groups
from damcha_core.errors import OutOfMemoryError
from damcha_core.models.transformer import TransformerPC
from damcha_core.profiling.memory_limits import OutOfMemory, out_of_memory_guard
from damcha_core.profiling.plan import Candidate

SEED = 20_261
"""Of the weights and the tokens."""
LEARNING_RATE = 1e-12
"""Leaves the weights as they are, so that every step is the same work. Trained on noise the scores
grow, and a CPU is slow at the tiny numbers that softmax then makes."""


class NumberFormat(Protocol):
    """What the model computes in, and where (`damcha_core.train.precision.Precision` is one)."""

    name: str
    device: torch.device

    @property
    def dtype(self) -> torch.dtype:
        """Format of the weights."""
        ...

    def prepare(self, model: nn.Module) -> nn.Module:
        """The model on the device in the format of its weights."""
        ...

    def autocast(self) -> AbstractContextManager[object]:
        """Context of a forward pass."""
        ...


class Subject:
    """One stack that can be taken through a training step phase by phase.

    The stack alone, without embedding and head, is what the attentions of a comparison differ in.
    The loss is the mean square of the distance to random targets.

    Args:
        candidate: the attention, its mode and the sizes.
        number_format: number format and device.
    """

    def __init__(self, candidate: Candidate, number_format: NumberFormat) -> None:
        self.candidate = candidate
        self.number_format = number_format
        self.batch_size = candidate.config.train.batch_size
        train = candidate.config.train
        self.model = seeded_stack(candidate).train()
        number_format.prepare(self.model)
        groups = parameter_groups(self.model, lr=LEARNING_RATE, weight_decay=train.weight_decay)
        fused = number_format.device.type in ("cpu", "cuda")
        self.optimizer = torch.optim.AdamW(groups, lr=LEARNING_RATE, fused=fused)

    def tokens(self, length: int, batch_size: int = 0) -> Tensor:
        """Random tokens (B, N, D), the same in every call.

        Args:
            length: number of tokens N.
            batch_size: number of sequences; 0: that of the candidate.
        """
        generator = torch.Generator().manual_seed(SEED + length)
        shape = (batch_size or self.batch_size, length, self.candidate.config.model.d_model)
        x_BND = torch.randn(shape, generator=generator)
        return x_BND.to(device=self.number_format.device, dtype=self.number_format.dtype)

    def forward(self, x_BND: Tensor) -> Tensor:
        """Forward pass and loss."""
        with self.number_format.autocast():
            y_BND = self.model(x_BND)
            return (y_BND.float() - x_BND.flip(1).float()).square().mean()

    def backward(self, loss: Tensor) -> None:
        """Backward pass; gradients are left in the parameters."""
        loss.backward()

    def update(self) -> None:
        """Update of the weights; the gradients are dropped."""
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def step(self, x_BND: Tensor) -> None:
        """A whole training step."""
        self.backward(self.forward(x_BND))
        self.update()

    def resident_bytes(self, x_BND: Tensor) -> int:
        """Bytes that are there between two steps: weights, optimiser state, tokens."""
        states = (
            value
            for state in self.optimizer.state.values()
            for value in state.values()
            if isinstance(value, Tensor)
        )
        tensors = [*self.model.parameters(), *self.model.buffers(), *states, x_BND]
        storages = {tensor.untyped_storage()._cdata: tensor for tensor in tensors}
        return sum(tensor.untyped_storage().nbytes() for tensor in storages.values())


def build_subject(candidate: Candidate, number_format: NumberFormat) -> Subject:
    """A subject whose optimiser has its state, as in every step but the first.

    Args:
        candidate: the attention, its mode and the sizes.
        number_format: number format and device.

    Raises:
        OutOfMemoryError: its weights, gradients and optimiser do not fit.
    """
    device = number_format.device
    element = torch.empty((), dtype=number_format.dtype).element_size()
    needed = 4 * candidate.stack.parameters() * element

    def build() -> Subject:
        subject = Subject(candidate, number_format)
        subject.step(subject.tokens(1, 1))
        return subject

    built = out_of_memory_guard(build, device, needed_bytes=needed)
    if isinstance(built, OutOfMemory):
        raise OutOfMemoryError(
            f"{candidate.label}: weights, gradients and optimiser need {needed:,} bytes, "
            f"{built.available_bytes or 0:,} are available; choose a smaller model"
        )
    return built


def seeded_stack(candidate: Candidate) -> TransformerPC:
    """The stack of a candidate with the same weights in every call, on the CPU."""
    model = candidate.config.model
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        return TransformerPC(
            model.d_model,
            model.n_heads,
            model.d_ff,
            model.n_layers,
            attention=candidate.name,
            attention_options=candidate.config.attention.option_values(),
            is_causal=candidate.is_causal,
            dropout=model.dropout,
        )
