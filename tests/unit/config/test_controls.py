"""mha-matched and mha-flops: chosen sizes, stored sizes, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from damcha_core.catalog.attentions import attention_row, register_attention
from damcha_core.catalog.controls import control_row, control_rows
from damcha_core.config.change import with_values
from damcha_core.config.controls import as_built, as_target
from damcha_core.config.document import to_mapping, to_toml
from damcha_core.config.identity import config_hash
from damcha_core.config.model_size import model_multiply_adds, model_parameters, stack_of
from damcha_core.config.options import DamchaOptions
from damcha_core.config.resolve import config_from_run, resolve, resolve_mapping
from damcha_core.errors import ConfigError, UsageError

NAMES = [row.name for row in control_rows()]
BOTH = pytest.mark.parametrize("causal", [False, True])
EVERY = pytest.mark.parametrize("name", NAMES)


def run(name, task="cifar10", attention=None, **model):
    return resolve_mapping(
        {"run": {"task": task}, "model": model, "attention": {"name": name, **(attention or {})}}
    )


def problems(*arguments, **keywords):
    with pytest.raises(ConfigError) as caught:
        run(*arguments, **keywords)
    return [line.removeprefix("settings: ") for line in caught.value.problems]


@BOTH
@pytest.mark.parametrize("d_model", [64, 128, 256])
@pytest.mark.parametrize("task", ["digits", "cifar10", "digits-cls", "cifar10-cls"])
def test_both_controls_meet_their_targets(task, d_model, causal):
    facts = {"channels": 3, "n_classes": 10}
    for name, count, most in (
        ("mha-matched", model_parameters, 0.01),
        ("mha-flops", model_multiply_adds, 0.03),
    ):
        config = run(name, task, d_model=d_model, causal=causal)
        damcha = run("damcha", task, d_model=d_model, causal=causal)
        difference = count(as_built(config), **facts) / count(damcha, **facts) - 1
        assert abs(difference) <= most
        assert as_target(config) == damcha
        assert as_built(config).attention.name == "mha"
        assert as_built(config).attention.options is None


def test_matched_changes_d_ff_alone_and_flops_depth_too():
    model = run("damcha", causal=True).model
    matched = as_built(run("mha-matched", causal=True)).model
    assert matched.model_copy(update={"d_ff": model.d_ff}) == model
    flops = as_built(run("mha-flops", causal=True)).model
    assert flops.n_layers > 8 * model.n_layers  # a causal generator costs as much as 8 blocks
    assert 0.5 < flops.d_ff / model.d_ff < 2  # depth comes first
    sizes = {"d_ff": model.d_ff, "n_layers": model.n_layers}
    assert flops.model_copy(update=sizes) == model


def test_a_run_of_anything_else_is_built_as_it_is():
    for name in ("damcha", "mha", "gated"):
        config = run(name)
        assert as_built(config) is config


@EVERY
@BOTH
def test_a_stored_run_is_the_same_run(name, causal, tmp_path):
    config = run(name, causal=causal, attention={"structure": "psd", "rank": 3})
    (tmp_path / "run.toml").write_text(to_toml(config), encoding="utf-8")
    again = resolve(tmp_path / "run.toml")
    assert again == config
    assert config_from_run(tmp_path) == config
    assert config_hash(again) == config_hash(config)
    assert with_values(config, {"train.horizon_steps": 7}).attention == config.attention
    stored = to_mapping(config)
    assert stored["attention"]["matched_d_ff"] == as_built(config).model.d_ff
    assert stored["model"]["d_ff"] == 256


def test_the_options_of_damcha_choose_what_is_matched():
    """So the run file of any damcha turns into its control by another name alone."""
    for options in (
        {},
        {"structure": "psd", "rank": 2},
        {"share": False},
        {"source": "static", "output": "matrix"},
        {"mlp_hidden": [32]},
        {"refresh": "geometric"},
        {"refresh": 16},
    ):
        matched = run("mha-matched", attention=options, causal=True)
        flops = run("mha-flops", attention=options, causal=True)
        damcha = run("damcha", attention=options, causal=True)
        assert matched.attention.options.model_dump(include=set(DamchaOptions.model_fields)) == (
            damcha.attention.options.model_dump()
        )
        own, other = (stack_of(c).parameters() for c in (as_built(matched), damcha))
        assert abs(own / other - 1) <= 0.01
        own, other = (
            stack_of(c).multiply_adds(64, is_causal=True) for c in (as_built(flops), damcha)
        )
        assert abs(own / other - 1) <= 0.03
    assert as_built(run("mha-flops", attention={"refresh": 16}, causal=True)).model.n_layers < (
        as_built(run("mha-flops", causal=True)).model.n_layers
    )


def test_options_without_effect_are_refused_as_for_damcha():
    (line,) = problems("mha-matched", attention={"rank": 2})
    assert line.startswith('attention.rank = 2 has no effect with attention.structure = "full"')


@EVERY
def test_another_size_than_the_computed_one_is_refused(name):
    (line,) = problems(name, attention={"matched_d_ff": 3})
    assert line.startswith(f"attention.matched_d_ff = 3 is refused: {name} makes it ")
    assert line.endswith(" with these settings; leave it out, or give 0")
    config = run(name)
    with pytest.raises(ConfigError, match=r"matched_d_ff = \d+ is refused"):
        with_values(config, {"model.d_ff": 300})
    changed = with_values(
        run("mha-matched"), {"model.d_ff": 300, "attention.matched_d_ff": 0}
    ).attention
    assert changed == run("mha-matched", d_ff=300).attention


def test_a_given_size_that_is_right_is_fine():
    config = run("mha-flops")
    depth = config.attention.options.matched_n_layers
    assert run("mha-flops", attention={"matched_n_layers": depth}) == config
    (line,) = problems("mha-flops", attention={"matched_n_layers": depth + 1})
    assert line.startswith(f"attention.matched_n_layers = {depth + 1} is refused")


def test_a_target_out_of_reach_names_the_closest():
    (line,) = problems("mha-matched", attention={"source": "static"}, d_ff=4)
    start = 'attention.name = "mha-matched" is refused: no d_ff gives mha the '
    assert line.startswith(start)
    assert " parameters of damcha in its stack within 1%; the closest is d_ff 1 with " in line
    (line,) = problems("mha-flops", attention={"source": "static"}, d_ff=1, n_layers=1)
    assert "multiply-adds of damcha in its stack within 3%; the closest is n_layers 1, d_ff 1" in (
        line
    )
    (line,) = problems("mha-matched", attention={"mlp_hidden": [65536, 65536]}, d_model=8)
    assert "the closest is d_ff 262144 with " in line


def test_a_target_out_of_reach_is_not_reported_beside_other_problems():
    lines = problems("mha-matched", attention={"source": "static"}, d_ff=1, n_heads=3)
    assert len(lines) == 1
    assert lines[0].startswith("model.d_model = 128 cannot be split")


@EVERY
def test_a_control_is_no_layer(name):
    with pytest.raises(UsageError, match=f"^{name} is a control, not a layer: mha in a model"):
        attention_row(name)
    with pytest.raises(ValueError, match=f"an attention called {name} is in the catalogue already"):
        register_attention(control_row(name))
    with pytest.raises(UsageError, match="is a control, not a layer"):
        stack_of(run(name))


def test_a_mistyped_control_finds_its_name_and_its_options():
    lines = problems("mha-flop", attention={"matched_d_ff": -1})
    assert lines[0].startswith('attention.name = "mha-flop" is unknown; did you mean mha-flops?')
    assert lines[1].startswith("attention.matched_d_ff = -1 is refused: give a whole number")
    (line,) = problems("mha", attention={"matched_n_layers": 3})
    assert line.startswith("attention.matched_n_layers belongs to attention mha-flops, not to mha")


@given(
    heads=st.integers(1, 4),
    width=st.integers(1, 24),
    d_ff=st.integers(64, 900),
    n_layers=st.integers(1, 6),
    hidden=st.lists(st.integers(1, 300), min_size=1, max_size=3),
    causal=st.booleans(),
    name=st.sampled_from(NAMES),
)
@hypothesis_settings(max_examples=60, deadline=None)
def test_any_settings_are_matched_or_refused(heads, width, d_ff, n_layers, hidden, causal, name):
    sizes = {"d_model": heads * width, "n_heads": heads, "d_ff": d_ff, "n_layers": n_layers}
    try:
        config = run(name, attention={"mlp_hidden": hidden}, causal=causal, **sizes)
    except ConfigError as error:
        assert "the closest is" in str(error)  # noqa: PT017 - either end is right
        return
    own, other = stack_of(as_built(config)), stack_of(as_target(config))
    if name == "mha-matched":
        assert abs(own.parameters() / other.parameters() - 1) <= 0.01
    else:
        cost, wanted = (stack.multiply_adds(64, is_causal=causal) for stack in (own, other))
        assert abs(cost / wanted - 1) <= 0.03
