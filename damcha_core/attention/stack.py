"""The attentions of a whole model, as a builder hands them over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from damcha_core.attention.layer import AttentionLayer


@dataclass(frozen=True)
class AttentionStack:
    """One attention a block, and what they own together.

    The model registers each layer in its block and `shared` once at its top, so that a shared
    module is counted, saved and trained once. The layers refer to it without registering it.

    Attributes:
        layers: the attention of each block, first block first.
        shared: the module that the layers use together, None when they share nothing.
    """

    layers: Sequence[AttentionLayer]
    shared: nn.Module | None
