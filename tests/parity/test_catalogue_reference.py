"""Every attention of the catalogue against its slow reference, in outputs and all gradients.

Every axis has a prime of its own, so that a swapped pair of axes cannot pass.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from damcha_core.attention import build_attention
from damcha_core.catalog.attentions import AttentionRow, attention_row, attention_rows
from damcha_core.catalog.loading import load

BATCH, TOKENS, HEADS, WIDTH = 2, 5, 3, 21
PAIRED_HEADS, PAIRED_WIDTH = 6, 42
HIDDEN = (11, 13)
NAMES = [row.name for row in attention_rows()]
OPTIONS: list[tuple[str, dict[str, object]]] = [(name, {}) for name in NAMES] + [
    ("damcha", {"output": "matrix"}),
    ("damcha-static", {"output": "matrix"}),
    ("damcha-static", {"structure": "symmetric"}),
    ("damcha-static", {"structure": "psd"}),
    ("damcha-static", {"structure": "low_rank"}),
    ("damcha-static", {"structure": "diagonal"}),
    ("damcha-static", {"structure": "block_diagonal"}),
    ("damcha-psd", {"rank": 2}),
    ("damcha-low-rank", {"rank": 1}),
    ("damcha", {"refresh": 2}),
    ("damcha-psd", {"refresh": 3}),
    ("damcha-diagonal", {"refresh": 2}),
    ("damcha-geometric", {"refresh_ratio": 2.5}),
    ("collaborative", {"shared_dim": 11}),
    ("gated", {"gate": "elementwise"}),
]
PADDING = torch.tensor([[True, True, False, True, False], [False, False, True, True, True]])


def parameters_of(row: AttentionRow, options: dict[str, object], redraw):
    """A layer of the row in float64 and every parameter that it reads."""
    small = {"mlp_hidden": HIDDEN} if row.name.startswith("damcha") else {}
    width, heads = (WIDTH, HEADS) if row.head_multiple == 1 else (PAIRED_WIDTH, PAIRED_HEADS)
    stack = build_attention(row.name, width, heads, 2, options=small | options)
    owner = nn.ModuleList([*stack.layers, *([stack.shared] if stack.shared else [])]).double()
    redraw(owner, 7)
    read = nn.ModuleList([stack.layers[-1], *([stack.shared] if stack.shared else [])])
    return stack.layers[-1], dict(read.named_parameters())


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_layer_and_reference_agree(name, options, is_causal, padded, redraw) -> None:
    row = attention_row(name)
    layer, parameters = parameters_of(row, options, redraw)
    mask = PADDING if padded else None
    keep = (PADDING if padded else torch.ones_like(PADDING))[..., None]
    random = torch.Generator().manual_seed(11)
    shape = BATCH, TOKENS, layer.d_model
    x = torch.randn(shape, generator=random, dtype=torch.float64)
    weight = torch.randn(x.shape, generator=random, dtype=torch.float64) * keep
    inputs = {"x": x.requires_grad_(), **parameters}

    fast = layer(x, key_mask=mask, is_causal=is_causal)
    slow = load(row.reference)(layer, x, mask, is_causal)
    fast_grads = torch.autograd.grad((fast * weight).sum(), list(inputs.values()))
    slow_grads = torch.autograd.grad((slow * weight).sum(), list(inputs.values()))

    torch.testing.assert_close(fast * keep, slow * keep, rtol=1e-10, atol=1e-11)
    for parameter, ours, true in zip(inputs, fast_grads, slow_grads, strict=True):
        torch.testing.assert_close(
            ours, true, rtol=1e-9, atol=1e-10, msg=lambda m, p=parameter: f"gradient of {p}: {m}"
        )
        assert true.abs().max() > 1e-6 or parameter.endswith("qkv.bias"), f"{parameter} is untested"
