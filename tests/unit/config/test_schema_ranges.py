"""The schema: published defaults, strict types, and a refusal of everything out of range."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Union, get_args, get_origin

import pytest
from pydantic import ValidationError

from damcha_core.catalog.run_attentions import run_attention
from damcha_core.config.consistency import conflicts
from damcha_core.config.keys import SECTIONS, dotted_keys, fields, option_owners, options_class
from damcha_core.config.resolve import resolve_mapping
from damcha_core.config.schema import RunConfig
from damcha_core.config.values import allowed
from damcha_core.errors import ConfigError

KEYS = dotted_keys()
DESIGN = {
    "run": "task name out seed device threads deterministic",
    "model": "d_model n_heads d_ff n_layers dropout patch_size causal",
    "attention": "name shared_dim structure source share init lr_scale body_lr_scale output "
    "rank mlp_hidden refresh refresh_ratio gate matched_d_ff matched_n_layers",
    "data": "root image_size mask_ratio source_lang target_lang tokenizer vocab_size max_tokens "
    "n_pairs sequence_length train_samples easy_epochs workers verify",
    "train": "epochs max_steps batch_size batch_tokens accumulate lr weight_decay warmup_steps "
    "min_lr_ratio clip_norm ema_decay label_smoothing patience precision compile "
    "save_every_steps keep_last stop_after_epochs horizon_steps",
    "eval": "split batch_size beam length_penalty max_new_tokens",
}


def field_of(dotted):
    section, _, key = dotted.partition(".")
    return fields(section)[key]


def bounds(field):
    """Lower and upper bound of a numeric field, and whether each is itself allowed."""
    found = {}
    for constraint in field.metadata:
        for kind in ("ge", "gt", "le", "lt"):
            if getattr(constraint, kind, None) is not None:
                found[kind] = getattr(constraint, kind)
    low, high = found.get("ge", found.get("gt")), found.get("le", found.get("lt"))
    return low, "ge" in found, high, "le" in found


def plain_part(kind):
    """A part of a union without its range."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def wrong_values(field):
    """Values that a field must refuse: other types, and just outside the range."""
    kind = field.annotation
    common = [[], {}, [[1]], math.nan, math.inf, -math.inf]
    if kind is bool:
        return [*common, 0, 1, 1.0, "true", ""]
    if kind is str:
        return [*common, 1, True, 1.5, "a\nb", "a\x00b", "\ud800"]
    if get_origin(kind) is Union and float in (plain_part(part) for part in get_args(kind)):
        return [*common, 0, -1, 0.0, 1001, True, 10**400, "", "none", "0.5", "Matrix"]
    if get_origin(kind) is Union:
        return [*common, 0, -1, 1.0, 1.5, True, 10**7, 10**400, "", "none", "16", "Token"]
    if get_origin(kind) is Literal:
        return [*common, 1, True, "", "none"]
    if get_origin(kind) is tuple:
        return [[], {}, 1, "256", [0], [65537], [True], [1.5], ["1"], [1] * 17, math.nan]
    low, low_allowed, high, high_allowed = bounds(field)
    numbers = [10**400, -(10**400), int("f" * 5000, 16), True, False, "1", "nan", "1e-4", ""]
    if kind is int:
        return [*common, *numbers, low - 1, high + 1, low + 0.5, float(low)]
    below = math.nextafter(low, -math.inf) if low_allowed else low
    above = math.nextafter(high, math.inf) if high_allowed else high
    return [*common, *numbers, below, above, 1e308, -1e308]


NUMBERS = [dotted for dotted in KEYS if field_of(dotted).annotation in (int, float)]


def test_the_keys_are_those_of_the_contract():
    assert tuple(f"{s}.{key}" for s, names in DESIGN.items() for key in names.split()) == KEYS


def test_defaults_are_the_published_quick_start():
    config = RunConfig()
    model = config.model
    assert (model.d_model, model.n_heads, model.d_ff, model.n_layers) == (128, 8, 256, 4)
    assert config.attention.name == "damcha"
    assert config.attention.options.mlp_hidden == (256, 512)
    assert config.run.task == "digits"
    assert config.data.root == "./data"
    # The picture size is CIFAR-10's; the recipe of digits, the default task, has its own.
    assert [conflict.keys for conflict in conflicts(config)] == [("data.image_size", "run.task")]


@pytest.mark.parametrize("dotted", KEYS)
def test_every_key_has_a_default_that_fits_and_a_description(dotted):
    field = field_of(dotted)
    assert field.description.endswith(".")
    assert len(field.description) > 15
    assert not field.is_required()
    assert field.default is not None


@pytest.mark.parametrize("section", [name for name in SECTIONS if name != "attention"])
def test_the_defaults_pass_their_own_checks(section):
    kind = SECTIONS[section]
    assert kind.model_validate(kind().model_dump()) == kind()


@pytest.mark.parametrize("dotted", KEYS)
def test_each_value_of_a_wrong_type_or_out_of_range_is_refused_by_name(dotted):
    section, _, key = dotted.partition(".")
    wrong = wrong_values(field_of(dotted))
    assert len(wrong) > 8
    for value in wrong:
        with pytest.raises(ConfigError) as caught:
            resolve_mapping({section: {key: value}})
        lines = [line for line in caught.value.problems if dotted in line]
        assert lines, f"{dotted} = {value!r}: {caught.value.problems}"
        assert all(line.isprintable() for line in caught.value.problems)


@pytest.mark.parametrize("dotted", NUMBERS)
def test_the_bounds_themselves_are_accepted_and_said(dotted):
    section, _, key = dotted.partition(".")
    field = field_of(dotted)
    low, low_allowed, high, high_allowed = bounds(field)
    kind = SECTIONS[section]
    if section == "attention":
        kind = options_class(run_attention(option_owners()[key][0]))
    inside_low = low if low_allowed else math.nextafter(low, math.inf)
    inside_high = high if high_allowed else math.nextafter(high, -math.inf)
    for value in (inside_low, inside_high):
        assert getattr(kind.model_validate({key: value}), key) == value
    text = allowed(field)
    assert ("from" in text) == low_allowed
    assert ("above" in text) != low_allowed
    assert ("below" in text) != high_allowed


def test_whole_numbers_are_numbers_but_truth_values_are_not():
    config = resolve_mapping({"train": {"lr": 1}})
    assert config.train.lr == 1.0
    assert isinstance(config.train.lr, float)
    with pytest.raises(ConfigError):
        resolve_mapping({"train": {"lr": True}})
    with pytest.raises(ConfigError):
        resolve_mapping({"train": {"epochs": True}})


def test_sections_are_frozen_and_closed():
    config = RunConfig()
    with pytest.raises(ValidationError):
        config.train.lr = 1.0
    with pytest.raises(ValidationError):
        config.train = config.train
    with pytest.raises(ValidationError):
        SECTIONS["train"](learning_rate=1.0)


@pytest.mark.parametrize("device", ["auto", "cpu", "mps", "cuda", "cuda:0", "cuda:15"])
def test_devices_that_are_accepted(device):
    assert resolve_mapping({"run": {"device": device}}).run.device == device


@pytest.mark.parametrize(
    "device", ["gpu", "cuda:", "cuda:-1", "cuda:x", "CPU", "cuda:0 ", "cuda:\u0663"]
)
def test_devices_that_are_refused(device):
    with pytest.raises(ConfigError, match='"cuda:N"'):
        resolve_mapping({"run": {"device": device}})


@pytest.mark.parametrize("name", ["a/b", "a\\b", "..", ".", " a", "a "])
def test_run_names_are_names_and_not_paths(name):
    with pytest.raises(ConfigError, match="the name of a folder inside runs/"):
        resolve_mapping({"run": {"name": name}})


def test_largest_seed():
    assert resolve_mapping({"run": {"seed": 2**63 - 1}}).run.seed == 2**63 - 1
