"""A dry run: real steps, nothing written, numbers that can be checked."""

from __future__ import annotations

import pytest
from tiny_runs import Recorder, tiny_config, train

from damcha_core.errors import ConfigError, DataError, UsageError
from damcha_core.train.rehearsal import rehearse


def test_a_rehearsal_makes_the_first_step_of_the_run_and_writes_nothing(tmp_path):
    config = tiny_config(tmp_path / "run", **{"train.accumulate": 2})
    plan = rehearse(config, Recorder())
    assert list(tmp_path.iterdir()) == []
    watcher = Recorder()
    train(tmp_path / "run", watcher, **{"train.accumulate": 2})
    assert plan.loss == watcher.steps[0].loss
    assert plan.steps == len(watcher.steps) == watcher.starts[0].steps
    assert plan.parameters == watcher.starts[0].parameters
    assert plan.config.train.horizon_steps == watcher.starts[0].horizon_steps
    assert plan.folder == str(tmp_path / "run")
    assert plan.state_bytes == 5 * 4 * plan.parameters
    assert plan.activation_bytes > 0
    assert plan.samples == {"train": 45, "valid": 5, "test": 10}
    assert plan.device == "cpu"
    assert plan.estimated_seconds == pytest.approx(plan.step_seconds * plan.steps)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"data.mask_ratio": 0.0}, ConfigError),
        ({"run.device": "cuda:99"}, UsageError),
        ({"data.image_size": 32, "data.verify": True}, DataError),
    ],
)
def test_a_rehearsal_fails_as_the_run_would(tmp_path, change, error):
    with pytest.raises(error):
        rehearse(tiny_config(tmp_path / "run", **change), Recorder())
    assert list(tmp_path.iterdir()) == []


def test_a_rehearsal_finds_a_folder_that_is_taken(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.toml").touch()
    with pytest.raises(UsageError, match="already holds a run"):
        rehearse(tiny_config(tmp_path / "run"), Recorder())
