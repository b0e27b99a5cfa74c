"""The head form of M follows the AdamW trajectory of the matrix form under its factors."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from damcha_core.attention import build_damcha, parameter_groups

BATCH, TOKENS, HEADS, WIDTH = 4, 5, 3, 15
STEPS, ACCUMULATE, LR, DECAY, CLIP = 100, 2, 3e-3, 0.1, 0.5


class Stack(nn.Module):
    """Two residual attentions, as a model registers them."""

    def __init__(self, *, output: str, source: str, share: bool) -> None:
        super().__init__()
        stack = build_damcha(
            WIDTH,
            HEADS,
            2,
            share=share,
            output=output,
            source=source,
            init="random",
            lr_scale="matrix",
            **({} if source == "static" else {"mlp_hidden": (7, 11)}),
        )
        self.shared = stack.shared
        self.layers = nn.ModuleList(stack.layers)

    def forward(self, x: Tensor, is_causal: bool) -> Tensor:
        for layer in self.layers:
            x = x + layer(x, is_causal=is_causal)
        return x

    def to_head(self) -> Stack:
        """The same model in the head form."""
        head = copy.deepcopy(self)
        if head.shared is None:
            for layer in head.layers:
                layer.generator = layer.generator.to_head()
            return head
        head.shared = head.shared.to_head()
        for layer in head.layers:
            layer.borrow(head.shared)
        return head


def rate(step: int) -> float:
    """Warm-up, then decay to a floor, as a pure factor of the step."""
    return min((step + 1) / 10, max(0.1, 1.0 - step / STEPS))


def train(model: Stack, *, is_causal: bool, with_factors: bool = True) -> None:
    """AdamW steps with accumulation and with clipping that bites."""
    groups = parameter_groups(model, lr=LR, weight_decay=DECAY)
    if not with_factors:
        for group in groups:
            group["lr"], group["norm_multiplicity"] = LR, 1.0
    optimiser = torch.optim.AdamW(groups)
    rates = torch.optim.lr_scheduler.LambdaLR(optimiser, rate)
    random = torch.Generator().manual_seed(4)
    clipped = 0
    for _ in range(STEPS):
        optimiser.zero_grad()
        for _ in range(ACCUMULATE):
            x, target = torch.randn(2, BATCH, TOKENS, WIDTH, generator=random, dtype=torch.float64)
            loss = (model(x, is_causal) - target.cumsum(1)).square().mean()
            (loss / ACCUMULATE).backward()
        squares = [
            group["norm_multiplicity"] * p.grad.square().sum()
            for group in optimiser.param_groups
            for p in group["params"]
        ]
        norm = torch.stack(squares).sum().sqrt()
        clipped += int(norm > CLIP)
        nn.utils.clip_grads_with_norm_(model.parameters(), CLIP, norm)
        optimiser.step()
        rates.step()
    assert clipped > STEPS // 2


def distance(head: Stack, matrix: Stack) -> float:
    """Largest difference between the parameters, the matrix form taken to the head form."""
    pairs = zip(head.parameters(), matrix.to_head().parameters(), strict=True)
    return max((a - b).abs().max().item() for a, b in pairs)


@pytest.mark.parametrize(
    ("source", "is_causal", "share"),
    [
        ("adaptive", False, True),
        ("adaptive", True, True),
        ("adaptive", False, False),
        ("static", False, True),
    ],
)
def test_a_hundred_steps_end_at_the_same_weights(source: str, is_causal: bool, share: bool) -> None:
    matrix = Stack(output="matrix", source=source, share=share).double()
    head = matrix.to_head()
    start = copy.deepcopy(head)
    train(matrix, is_causal=is_causal)
    train(head, is_causal=is_causal)
    assert distance(head, matrix) < 1e-10
    moved = [
        (a - b).abs().max() for a, b in zip(head.parameters(), start.parameters(), strict=True)
    ]
    assert min(moved) > 1e-3


def test_without_the_factors_the_head_form_goes_elsewhere() -> None:
    matrix = Stack(output="matrix", source="adaptive", share=True).double()
    head = matrix.to_head()
    train(matrix, is_causal=False)
    train(head, is_causal=False, with_factors=False)
    assert distance(head, matrix) > 1e-3
