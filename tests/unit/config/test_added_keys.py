"""A run that was stored before a key existed keeps its settings, its meaning and its hash."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli_w

from damcha_core.catalog.attentions import attention_rows
from damcha_core.config.added_keys import ADDED_KEYS, with_added_keys
from damcha_core.config.document import to_mapping
from damcha_core.config.identity import config_hash, flat
from damcha_core.config.keys import dotted_keys, option_owners
from damcha_core.config.overrides import layer_from_mapping
from damcha_core.config.resolve import config_from_run, resolve

# config_hash of `damcha train --task digits --attention NAME` as version 0.1 computed it.
HASHES = {
    "damcha": "2be718b85ce2e77562ccc5d4a13baba4a28198cfe3e2528a6c1ad5078ec3e7f3",
    "damcha-psd": "abc7f8d8299c611341fe860f037fd94efc495b83b63ebbb43d8ee372579ca0d5",
    "mha": "0575157e8e2d5ee17d8677e1178f5e6fa044c0b8fd49431730e527a6a98a74f4",
}


def as_stored_before(folder: Path, **changes: object) -> Path:
    """The run.toml that version 0.1 would have written."""
    config = resolve(flags={"run.task": "digits", **changes})
    document = to_mapping(config)
    for dotted in ADDED_KEYS:
        section, _, key = dotted.partition(".")
        document[section].pop(key, None)
    if "init" in document["attention"]:
        document["attention"]["init"] = "identity"
    file = folder / "run.toml"
    file.write_text(tomli_w.dumps(document), encoding="utf-8")
    return file


def test_the_added_keys_are_keys():
    assert set(ADDED_KEYS) <= set(dotted_keys())


@pytest.mark.parametrize("name", HASHES)
def test_a_run_of_version_0_1_keeps_its_hash(tmp_path, name):
    file = as_stored_before(tmp_path, **{"attention.name": name})
    assert config_hash(config_from_run(file)) == HASHES[name]


@pytest.mark.parametrize("row", attention_rows(), ids=lambda row: row.name)
def test_every_added_key_has_the_value_that_was_meant_without_it(tmp_path, row):
    before = flat(config_from_run(as_stored_before(tmp_path, **{"attention.name": row.name})))
    owners = option_owners()
    for dotted, value in ADDED_KEYS.items():
        section, _, key = dotted.partition(".")
        if section == "attention" and row.name not in owners[key]:
            assert dotted not in before
        else:
            assert before[dotted] == value


def test_a_new_run_has_the_default_and_another_hash(tmp_path):
    stored = config_from_run(as_stored_before(tmp_path))
    new = resolve(flags={"run.task": "digits", "attention.init": "identity"})
    scales = ("attention.lr_scale", "attention.body_lr_scale")
    assert all(flat(new)[key] != ADDED_KEYS[key] for key in scales)
    assert config_hash(new) != config_hash(stored)


def test_what_a_stored_run_says_itself_stands(tmp_path):
    file = as_stored_before(tmp_path)
    text = file.read_text(encoding="utf-8").replace("[attention]", "[attention]\nlr_scale = 2.0")
    file.write_text(text, encoding="utf-8")
    assert flat(config_from_run(file))["attention.lr_scale"] == 2.0


def test_a_damaged_name_is_reported_and_nothing_else():
    layer = with_added_keys(layer_from_mapping({"attention": {"name": 3}}, "x", []))
    assert ("attention", "lr_scale") not in layer
