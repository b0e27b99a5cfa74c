"""[attention]: options of the row, presets, and options that would have no effect."""

from __future__ import annotations

import pytest

from damcha_core.catalog import attentions
from damcha_core.catalog.attention_row import AttentionRow
from damcha_core.catalog.attentions import attention_rows
from damcha_core.config.options import DamchaOptions
from damcha_core.config.resolve import resolve_mapping
from damcha_core.config.values import Settings
from damcha_core.errors import ConfigError

PRESETS = [row for row in attention_rows() if row.preset]


def attention(**values):
    return resolve_mapping({"attention": values}).attention


def problems(**values):
    with pytest.raises(ConfigError) as caught:
        attention(**values)
    return [line.removeprefix("settings: ") for line in caught.value.problems]


def test_mha_has_no_options():
    section = attention(name="mha")
    assert section.options is None
    assert section.option_values() == {}


def test_damcha_has_its_defaults():
    section = attention()
    assert section.name == "damcha"
    assert section.options == DamchaOptions()
    assert section.option_values() == {
        "structure": "full",
        "source": "adaptive",
        "share": True,
        "init": "random",
        "lr_scale": 0.25,
        "body_lr_scale": 0.25,
        "output": "head",
        "rank": 0,
        "mlp_hidden": (256, 512),
        "refresh": "token",
        "refresh_ratio": 1.25,
    }


@pytest.mark.parametrize("row", PRESETS, ids=lambda row: row.name)
def test_a_preset_keeps_its_name_and_fills_its_options_in(row):
    section = attention(name=row.name)
    assert section.name == row.name
    assert section.options == DamchaOptions(**row.preset)
    repeated = attention(name=row.name, **row.preset)
    assert repeated == section


@pytest.mark.parametrize("row", PRESETS, ids=lambda row: row.name)
def test_a_preset_may_not_be_contradicted(row):
    other = {"structure": "full", "source": "adaptive", "share": True, "refresh": 16}
    for key in row.preset:
        (line,) = problems(name=row.name, **{key: other[key]})
        assert f"{row.name} fixes {key} = " in line
        assert 'choose attention.name = "damcha"' in line


def test_zero_is_not_false_for_a_preset_either():
    (line,) = problems(name="damcha-unshared", share=0)
    assert line.startswith("attention.share = 0 is refused")


def test_the_free_options_of_a_preset_are_free():
    assert attention(name="damcha-psd", rank=3, share=False).options.rank == 3


@pytest.mark.parametrize("key", DamchaOptions.model_fields)
def test_options_of_another_row_are_refused_naming_it(key):
    value = DamchaOptions().model_dump(mode="json")[key]
    (line,) = problems(name="mha", **{key: value})
    assert line == (
        f"attention.{key} belongs to attention damcha, not to mha: leave it out, or choose "
        'attention.name = "damcha"'
    )


@pytest.mark.parametrize(
    ("values", "start"),
    [
        ({"rank": 2}, 'attention.rank = 2 has no effect with attention.structure = "full"'),
        ({"name": "damcha-diagonal", "rank": 2}, "attention.rank = 2 has no effect"),
        ({"structure": "psd", "output": "matrix"}, 'attention.output = "matrix" has no effect'),
        (
            {"source": "static", "mlp_hidden": [8]},
            'attention.mlp_hidden = [8] has no effect with attention.source = "static"',
        ),
        ({"name": "damcha-static", "mlp_hidden": [8]}, "attention.mlp_hidden = [8] has no effect"),
        (
            {"name": "damcha-static", "body_lr_scale": 2},
            'attention.body_lr_scale = 2.0 has no effect with attention.source = "static"',
        ),
        (
            {"name": "damcha-static", "refresh": "geometric", "refresh_ratio": 2},
            'attention.refresh = "geometric" has no effect with attention.source = "static"',
        ),
        (
            {"refresh_ratio": 2},
            'attention.refresh_ratio = 2.0 has no effect with attention.refresh = "token": leave '
            'it out, or choose attention.refresh = "geometric"',
        ),
        ({"refresh": 16, "refresh_ratio": 2.0}, "attention.refresh_ratio = 2.0 has no effect"),
    ],
)
def test_an_option_without_effect_is_refused(values, start):
    (line,) = problems(**values)
    assert line.startswith(start)


def test_an_option_without_effect_may_repeat_its_default():
    attention(rank=0, output="head")
    attention(source="static", mlp_hidden=[256, 512])
    assert attention(source="static", output="matrix").options.output == "matrix"
    assert attention(structure="low_rank", rank=65536).options.rank == 65536


@pytest.mark.parametrize("refresh", ["token", "geometric", 1, 16, 1_000_000])
def test_refresh_is_a_word_or_a_number(refresh):
    assert attention(refresh=refresh).options.refresh == refresh
    assert attention(name="damcha-geometric", refresh_ratio=2).options.refresh_ratio == 2.0


@pytest.mark.parametrize("refresh", [0, "16", True, "log"])
def test_another_refresh_is_refused_with_what_is_accepted(refresh):
    (line,) = problems(refresh=refresh)
    assert line.startswith("attention.refresh = ")
    assert line.endswith('give one of "token", "geometric" or a whole number from 1 to 1000000')


@pytest.mark.parametrize("ratio", [1, 0.5, "2"])
def test_a_ratio_that_does_not_grow_is_refused(ratio):
    (line,) = problems(refresh="geometric", refresh_ratio=ratio)
    assert "give a number above 1, at most 1000" in line


def test_a_mistyped_name_still_has_its_options_checked():
    lines = problems(name="damhca", structure="triangular", rank=-1)
    assert len(lines) == 3
    assert lines[0].startswith('attention.name = "damhca" is unknown; did you mean damcha? known:')
    assert lines[1].startswith('attention.structure = "triangular" is refused: give one of "full"')
    assert lines[2].startswith("attention.rank = -1 is refused")
    (line,) = problems(name="zzzzzz", structure="triangular")
    assert line.startswith('attention.name = "zzzzzz" is unknown; known: mha')


class MineOptions(Settings):
    """Options of a layer that is added from outside."""

    window: int = 3


def test_a_new_row_brings_its_options_with_no_other_edit(monkeypatch):
    monkeypatch.setattr(attentions, "ROWS", dict(attentions.ROWS))
    attentions.register_attention(
        AttentionRow(
            name="mine",
            summary="for this test",
            builder="nowhere:build",
            reference="nowhere:reference",
            options=f"{__name__}:MineOptions",
            source="-",
            licence="-",
            causal=True,
            cacheable=False,
            formula="-",
            parameters=lambda d_model, n_heads, n_layers, options: 0,
            multiply_adds=lambda *sizes, n_tokens, is_causal: 0,
        )
    )
    assert attention(name="mine", window=5).option_values() == {"window": 5}
    (line,) = problems(name="mine", structure="psd")
    assert "attention.structure belongs to attention damcha, not to mine" in line
    (line,) = problems(name="damcha", window=5)
    assert "attention.window belongs to attention mine, not to damcha" in line
    (line,) = problems(name="mine", windwo=5)
    assert "did you mean attention.window?" in line
