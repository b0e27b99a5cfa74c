"""Keys that came after version 0.1, and what a run that was stored without them was trained with.

A stored run.toml is complete, so a key that it lacks did not exist when the run began. Such a run
is evaluated and resumed as it was trained, and the hash that ties its checkpoints to its settings
is the one it was stored under.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from damcha_core.config.attention_options import likely_row
from damcha_core.config.keys import options_class
from damcha_core.config.overrides import Layer, Setting
from damcha_core.config.schema import AttentionSection

ADDED_KEYS: Mapping[str, object] = {
    "attention.lr_scale": "matrix",
    "attention.body_lr_scale": 1.0,
    "data.n_pairs": 8,
    "data.sequence_length": 0,
    "data.train_samples": 10_000,
    "data.easy_epochs": 0,
}
"""Dotted key -> the value that did what the version before the key did, or any that did nothing."""


def with_added_keys(layer: Layer) -> Layer:
    """The settings of a stored run, with the keys that its version did not have.

    Args:
        layer: what run.toml holds.

    Returns:
        The same with each added key that it lacks and that its attention has.
    """
    name = layer.get(("attention", "name"))
    row = likely_row(AttentionSection.model_fields["name"].default if name is None else name.value)
    options = None if row is None else options_class(row)
    known = set() if options is None else set(options.model_fields)
    added: Layer = {}
    for dotted, value in ADDED_KEYS.items():
        section, _, key = dotted.partition(".")
        if section != "attention" or key in known:
            added[section, key] = Setting(value, "a run of an earlier version")
    return {**added, **layer}


def without_added_keys(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by dotted key as the version before the added keys would have stored them.

    Args:
        settings: dotted key -> value.

    Returns:
        The settings without the added keys whose value is that of the earlier version.
    """
    return {
        key: value
        for key, value in settings.items()
        if key not in ADDED_KEYS or value != ADDED_KEYS[key]
    }
