"""Which layers run on torch's fused attention, that forms no scores."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from damcha_core.attention import Carry, build_attention

FUSED = ["mha", "collaborative", "elliptical", "differential", "damcha", "gated"]
MIXERS = ["talking-heads", "dcmha"]
PADDING = torch.arange(24).expand(2, -1) < torch.tensor([[24], [17]])


class Operators(TorchDispatchMode):
    """Names of the operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def operators(name: str, key_mask: torch.Tensor | None, is_causal: bool) -> list[str]:
    first, second = build_attention(name, 32, 4, 2).layers
    x = torch.randn(2, 24, 32, requires_grad=True)
    carry = Carry()
    first(x, carry=carry)
    with Operators() as ran:
        second(x, key_mask=key_mask, is_causal=is_causal, carry=carry).sum().backward()
    return ran.names


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("key_mask", [None, PADDING], ids=["no mask", "padded"])
@pytest.mark.parametrize("name", FUSED)
def test_the_fused_kernel_runs_forward_and_backward(name: str, key_mask, is_causal: bool) -> None:
    names = operators(name, key_mask, is_causal)
    fused = [n for n in names if "flash_attention_for_cpu" in n]
    assert len(fused) == (4 if name == "differential" else 2)
    assert not any("softmax" in n for n in names)


@pytest.mark.parametrize("name", MIXERS)
def test_mixers_run_as_many_operators_for_many_heads(name: str) -> None:
    counts = []
    for n_heads in (2, 8):
        (layer,) = build_attention(name, 32, n_heads, 1).layers
        with Operators() as ran:
            layer(torch.randn(2, 24, 32))
        counts.append(len(ran.names))
    assert counts[0] == counts[1] < 200
