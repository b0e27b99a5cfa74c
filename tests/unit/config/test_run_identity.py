"""config_hash and differing_keys: what makes two runs the same run."""

from __future__ import annotations

import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from damcha_core.catalog.controls import SIZE_PREFIX
from damcha_core.config.change import with_values
from damcha_core.config.identity import NOT_IDENTITY, config_hash, differing_keys
from damcha_core.config.keys import dotted_keys, option_owners
from damcha_core.config.resolve import resolve, resolve_mapping

# A valid other value for each key of the images task.
CHANGES = {
    "run.task": "images-cls",
    "run.name": "other",
    "run.out": "other",
    "run.seed": 7,
    "run.device": "cpu",
    "run.threads": 3,
    "run.deterministic": True,
    "model.d_model": 64,
    "model.n_heads": 4,
    "model.d_ff": 99,
    "model.n_layers": 2,
    "model.dropout": 0.25,
    "model.patch_size": 2,
    "model.causal": True,
    "attention.name": "mha",
    "attention.shared_dim": 16,
    "attention.gate": "elementwise",
    "attention.structure": "psd",
    "attention.source": "static",
    "attention.share": False,
    "attention.init": "identity",
    "attention.lr_scale": "matrix",
    "attention.body_lr_scale": 2.0,
    "attention.output": "matrix",
    "attention.rank": 3,
    "attention.mlp_hidden": [8],
    "attention.refresh": 16,
    "attention.refresh_ratio": 2.0,
    "data.root": "other",
    "data.image_size": 64,
    "data.mask_ratio": 0.25,
    "data.source_lang": "fr",
    "data.target_lang": "fr",
    "data.tokenizer": "bpe",
    "data.workers": 2,
    "data.verify": False,
    "train.precision": "float64",
    "train.compile": True,
    "eval.split": "test",
}


def base():
    return resolve_mapping({"run": {"task": "images"}})


# The sizes of a control follow from the other keys, so none can change alone (test_controls).
FREE_KEYS = [key for key in dotted_keys() if not key.startswith(f"attention.{SIZE_PREFIX}")]


@pytest.mark.parametrize("key", FREE_KEYS)
def test_every_key_counts_but_the_six_that_change_no_number(key):
    config = base()
    owners = option_owners().get(key.removeprefix("attention."), ("damcha",))
    if "damcha" not in owners:
        config = resolve_mapping({"run": {"task": "images"}, "attention": {"name": owners[0]}})
    if key == "train.batch_tokens":
        config = resolve_mapping({"run": {"task": "cldr"}})
    if key == "attention.rank":
        config = with_values(config, {"attention.structure": "low_rank"})
    if key == "attention.refresh_ratio":
        config = with_values(config, {"attention.refresh": "geometric"})
    if key == "attention.name":
        changed = resolve_mapping({"run": {"task": "images"}, "attention": {"name": "mha"}})
    else:
        section, _, name = key.partition(".")
        value = CHANGES.get(key)
        if value is None:
            old = getattr(getattr(config, section), name)
            value = old + 1 if isinstance(old, int) else old / 2 + 0.1
        changed = with_values(config, {key: value})
    assert (config_hash(changed) == config_hash(config)) == (key in NOT_IDENTITY)
    differing = differing_keys(config, changed)
    if key == "attention.name":
        assert differing[0] == key
        own = {k for k, rows in option_owners().items() if "damcha" in rows}
        assert set(differing[1:]) == {f"attention.{k}" for k in own}
    else:
        assert differing == [key]


def test_the_keys_that_do_not_count_are_those_of_the_contract():
    assert {
        "run.name",
        "run.out",
        "run.device",
        "run.threads",
        "data.root",
        "data.workers",
    } == NOT_IDENTITY


def test_the_hash_is_64_hexadecimal_digits_and_fixed():
    """A stored run keeps its identity: this changes only together with the schema or a recipe."""
    text = config_hash(base())
    assert len(text) == 64
    assert set(text) <= set(string.hexdigits.lower())
    assert text == config_hash(base())


def test_numbers_count_by_value_and_not_by_spelling():
    whole = resolve_mapping({"train": {"lr": 1}})
    assert config_hash(whole) == config_hash(resolve_mapping({"train": {"lr": 1.0}}))
    negative = resolve_mapping({"data": {"mask_ratio": -0.0}})
    assert negative == resolve_mapping({"data": {"mask_ratio": 0.0}})
    assert config_hash(negative) == config_hash(resolve_mapping({"data": {"mask_ratio": 0}}))


@settings(
    derandomize=True,
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_no_differing_keys_means_equal_and_the_same_hash(configurations, data):
    first, second = data.draw(configurations), data.draw(configurations)
    keys = differing_keys(first, second)
    assert (keys == []) == (first == second)
    assert sorted(keys) == sorted(differing_keys(second, first))
    same = set(keys) <= NOT_IDENTITY
    assert (config_hash(first) == config_hash(second)) == same


def test_a_preset_is_not_the_row_with_the_same_options():
    preset = resolve(flags={"attention.name": "damcha-static"})
    spelt = resolve(None, ["attention.source=static"])
    assert differing_keys(preset, spelt) == ["attention.name"]
