"""Attentions by name."""

from __future__ import annotations

import pytest

from damcha_core.attention import DamchaAttention, MultiHeadAttention, build_attention
from damcha_core.errors import UsageError


def test_a_row_builds_a_layer_a_block() -> None:
    stack = build_attention("mha", 6, 3, 4, dropout=0.25)
    assert [type(layer) for layer in stack.layers] == [MultiHeadAttention] * 4
    assert {layer.dropout for layer in stack.layers} == {0.25}
    assert stack.shared is None


def test_a_preset_is_applied() -> None:
    stack = build_attention("damcha-psd", 6, 3, 2, options={"rank": 1})
    assert all(isinstance(layer, DamchaAttention) for layer in stack.layers)
    assert stack.shared.structure_name == "psd"
    assert stack.shared.structure.rank == 1


def test_options_may_repeat_a_preset() -> None:
    stack = build_attention("damcha-static", 6, 3, 2, options={"source": "static"})
    assert stack.shared.is_static


def test_options_may_not_contradict_a_preset() -> None:
    with pytest.raises(UsageError, match="damcha-static fixes source to 'static', got 'adaptive'"):
        build_attention("damcha-static", 6, 3, 2, options={"source": "adaptive"})


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UsageError, match="damcha"):
        build_attention("damchaa", 6, 3, 2)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="rank"):
        build_attention("mha", 6, 3, 2, options={"rank": 1})
