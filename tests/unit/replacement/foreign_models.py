"""Small models of torch and timm, and what every swap of their attentions has to do."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from damcha_core.attention.parameter_groups import parameter_groups
from damcha_core.catalog.attentions import attention_row, attention_rows

WIDTH, HEADS, LAYERS, TOKENS = 24, 4, 3, 7
NAMES = [row.name for row in attention_rows()]


def small(name: str) -> dict[str, object]:
    """Options that make a layer of the row small."""
    adaptive = name.startswith("damcha") and attention_row(name).preset.get("source") != "static"
    return {"mlp_hidden": (9, 11)} if adaptive else {}


def torch_encoder(batch_first: bool = True, n_layers: int = LAYERS) -> nn.TransformerEncoder:
    """An encoder whose evaluation takes torch's fast path where it can."""
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, dropout=0.0, batch_first=batch_first)
    with warnings.catch_warnings():
        if not batch_first:
            warnings.simplefilter("ignore")  # it says that there is no fast path
        return nn.TransformerEncoder(layer, n_layers)


def timm_vit(**settings: object) -> nn.Module:
    """A vision transformer of timm with 16 patches, a class token and as many blocks."""
    import timm

    return timm.models.VisionTransformer(
        img_size=8,
        patch_size=2,
        in_chans=3,
        embed_dim=WIDTH,
        depth=LAYERS,
        num_heads=HEADS,
        num_classes=5,
        **settings,
    )


def redrawn(module: nn.Module, seed: int = 7) -> nn.Module:
    """The module with every parameter from a random draw: at its start a metric may ignore all."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            fan_in = parameter.shape[-1] if parameter.ndim > 1 else 4
            drawn = torch.randn(parameter.shape, generator=random, dtype=torch.float64)
            parameter.copy_(drawn * 0.9 / math.sqrt(fan_in))
    return module


def losses_of_training(
    model: nn.Module, loss: Callable[[], Tensor], n_steps: int = 16
) -> list[float]:
    """Losses of some steps on one batch."""
    model.train()
    optimiser = torch.optim.AdamW(parameter_groups(model, lr=3e-3, weight_decay=0.0))
    losses = []
    for _ in range(n_steps):
        optimiser.zero_grad()
        value = loss()
        value.backward()
        optimiser.step()
        losses.append(value.item())
    return losses
