"""The attention rows: names, completeness, registration."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from damcha_core.catalog import attentions
from damcha_core.catalog.attentions import attention_row, attention_rows, register_attention
from damcha_core.catalog.loading import load
from damcha_core.errors import UsageError

NAMES = [row.name for row in attention_rows()]
PUBLISHED = [
    "mha",
    "talking-heads",
    "collaborative",
    "elliptical",
    "dcmha",
    "differential",
    "damcha",
    "gated",
]
PRESETS = {
    "damcha-static": {"source": "static"},
    "damcha-static-unshared": {"source": "static", "share": False},
    "damcha-unshared": {"share": False},
    "damcha-symmetric": {"structure": "symmetric"},
    "damcha-psd": {"structure": "psd"},
    "damcha-low-rank": {"structure": "low_rank"},
    "damcha-diagonal": {"structure": "diagonal"},
    "damcha-block-diagonal": {"structure": "block_diagonal"},
    "damcha-geometric": {"refresh": "geometric"},
}


def test_the_names_of_the_design_are_there():
    assert [row.name for row in attention_rows() if not row.preset] == PUBLISHED
    assert {row.name: dict(row.preset) for row in attention_rows() if row.preset} == PRESETS


@pytest.mark.parametrize("name", NAMES)
def test_every_row_says_everything(name):
    row = attention_row(name)
    for text in (row.summary, row.source, row.licence, row.formula):
        assert text.strip() == text
        assert len(text) > 5
        assert text.isprintable()
    for path in (row.builder, row.reference):
        assert path.startswith("damcha_core.attention.")
        assert path.count(":") == 1
    assert row.causal
    assert row.cacheable


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_fixes_options_that_exist_to_other_than_the_default_values(name):
    row = attention_row(name)
    options = load(row.options)
    defaults = options().model_dump()
    for key, value in row.preset.items():
        assert value != defaults[key]
    assert options(**row.preset)


def test_rows_and_presets_cannot_be_changed():
    row = attention_row("damcha-psd")
    with pytest.raises(FrozenInstanceError):
        row.name = "other"
    with pytest.raises(TypeError):
        row.preset["structure"] = "full"


def test_an_unknown_name_lists_the_names_and_the_nearest():
    with pytest.raises(UsageError) as caught:
        attention_row("damcha-symetric")
    message = str(caught.value)
    assert "did you mean damcha-symmetric?" in message
    assert all(name in message for name in NAMES)
    assert caught.value.exit_code == 2


def test_a_new_row_is_found_and_a_duplicate_is_refused(monkeypatch):
    monkeypatch.setattr(attentions, "ROWS", dict(attentions.ROWS))
    new = replace(attention_row("mha"), name="mine")
    register_attention(new)
    assert attention_row("mine") is new
    assert attention_rows()[-1] is new
    with pytest.raises(ValueError, match="mine is in the catalogue already"):
        register_attention(new)
