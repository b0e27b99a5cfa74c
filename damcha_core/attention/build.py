"""Attentions by name: the one place where a catalogue row becomes layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from damcha_core.attention.stack import AttentionStack
from damcha_core.errors import UsageError


def build_attention(
    name: str,
    d_model: int,
    n_heads: int,
    n_layers: int,
    *,
    dropout: float = 0.0,
    options: Mapping[str, Any] | None = None,
) -> AttentionStack:
    """The attentions of a stack of n_layers blocks.

    Args:
        name: a row of the attention catalogue.
        d_model: width D of the tokens, a multiple of n_heads.
        n_heads: number of heads H, at least 1.
        n_layers: number of layers, at least 0.
        dropout: probability with which an attention weight is dropped in training, in [0, 1).
        options: the row's own options; those not given keep the builder's defaults.

    Raises:
        UsageError: the name is not in the catalogue or that of a control, or an option contradicts
            what the row fixes.
        ValueError: a size or an option is not valid.
        TypeError: the builder has no such option.
    """
    from damcha_core.catalog.attentions import attention_row
    from damcha_core.catalog.loading import load

    row = attention_row(name)
    given = dict(options or {})
    for key, fixed in row.preset.items():
        if given.setdefault(key, fixed) != fixed:
            raise UsageError(
                f"attention {name} fixes {key} to {fixed!r}, got {given[key]!r}; leave {key} out "
                "or choose the row without this preset"
            )
    stack: AttentionStack = load(row.builder)(d_model, n_heads, n_layers, dropout=dropout, **given)
    return stack
