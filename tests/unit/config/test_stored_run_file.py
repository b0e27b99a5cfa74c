"""A configuration written to run.toml reads back equal, by either way of reading it."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from damcha_core.catalog.run_attentions import attention_names
from damcha_core.catalog.tasks import task_rows
from damcha_core.config.change import with_values
from damcha_core.config.document import to_mapping, to_toml
from damcha_core.config.identity import config_hash
from damcha_core.config.keys import dotted_keys, option_owners
from damcha_core.config.resolve import config_from_run, resolve, resolve_mapping
from damcha_core.errors import CheckpointError, ConfigError

PROPERTY = settings(
    derandomize=True,
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@PROPERTY
@given(data=st.data())
def test_a_stored_run_file_reads_back_equal(configurations, tmp_path, data):
    config = data.draw(configurations)
    file = tmp_path / "run.toml"
    file.write_text(to_toml(config), encoding="utf-8", newline="\n")
    assert config_from_run(tmp_path) == config
    assert config_from_run(file) == config
    assert resolve(file) == config  # damcha train --config RUN/run.toml
    assert resolve_mapping(to_mapping(config)) == config
    assert config_hash(config_from_run(file)) == config_hash(config)
    assert to_toml(config_from_run(file)) == to_toml(config)


@pytest.mark.parametrize("task", [row.name for row in task_rows()])
@pytest.mark.parametrize("attention", attention_names())
def test_every_task_and_attention_reads_back_equal(task, attention, tmp_path):
    config = resolve(flags={"run.task": task, "attention.name": attention})
    (tmp_path / "run.toml").write_text(to_toml(config))
    assert config_from_run(tmp_path) == config
    assert resolve(tmp_path / "run.toml") == config


def test_the_stored_file_is_complete():
    mapping = to_mapping(resolve())
    foreign = {f"attention.{k}" for k, rows in option_owners().items() if "damcha" not in rows}
    expected = [key for key in dotted_keys() if key not in foreign]
    assert [f"{s}.{key}" for s, table in mapping.items() for key in table] == expected
    assert mapping["attention"]["mlp_hidden"] == [256, 512]
    assert to_mapping(resolve(flags={"attention.name": "mha"}))["attention"] == {"name": "mha"}


def test_neither_recipe_nor_variable_changes_a_stored_run(tmp_path, monkeypatch):
    (tmp_path / "run.toml").write_text('[run]\ntask = "images"\n')
    monkeypatch.setenv("DAMCHA_DATA", "elsewhere")
    config = config_from_run(tmp_path)
    assert config.data.mask_ratio == 0.5  # the recipe has 0.75
    assert config.data.root == "./data"


def test_a_stored_run_takes_changes_on_top(tmp_path):
    (tmp_path / "run.toml").write_text(to_toml(resolve()))
    config = config_from_run(tmp_path, ["train.keep_last=5"], {"train.epochs": 9})
    assert (config.train.keep_last, config.train.epochs) == (5, 9)
    with pytest.raises(ConfigError, match=r"--epochs: train\.epochs = 0"):
        config_from_run(tmp_path, flags={"train.epochs": 0})


def test_a_folder_without_a_run_is_a_missing_run(tmp_path):
    for path in (tmp_path, tmp_path / "run.toml", tmp_path / "none"):
        with pytest.raises(CheckpointError, match="there is no such file") as caught:
            config_from_run(path)
        assert caught.value.exit_code == 4


def test_a_damaged_stored_file_names_itself(tmp_path):
    (tmp_path / "run.toml").write_text("[train\n")
    with pytest.raises(ConfigError, match=r"run\.toml, line 1: this is not TOML"):
        config_from_run(tmp_path)
    (tmp_path / "run.toml").write_text("[train]\nlr = 0\n")
    with pytest.raises(ConfigError, match=r"run\.toml: train\.lr = 0 is refused"):
        config_from_run(tmp_path)


def test_single_settings_are_changed_and_checked_again():
    config = resolve()
    changed = with_values(config, {"train.horizon_steps": 5040, "attention.share": False})
    assert changed.train.horizon_steps == 5040
    assert changed.attention.options.share is False
    assert config.train.horizon_steps == 0
    assert with_values(config, {}) == config
    with pytest.raises(ConfigError, match="n_heads = 3"):
        with_values(config, {"model.n_heads": 3})
    with pytest.raises(ConfigError, match=r"did you mean train\.lr"):
        with_values(config, {"train.learning_rate": 1.0})
