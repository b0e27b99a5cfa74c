"""The first 20 losses of the tasks whose data are always the same are those that are stored.

scripts/regenerate_golden_losses.py makes the file, and says when it may be made again.
"""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from types import ModuleType

import pytest
from tiny_runs import repository

from damcha_core.catalog.tasks import task_rows
from damcha_core.config.identity import flat

TOLERANCE = 1e-7
TASKS = [*(row.name for row in task_rows() if not row.is_text), "concepts"]
ATTENTIONS = ("damcha", "damcha-identity-matrix", "damcha-random-matrix", "mha")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script that makes the stored losses."""
    path = repository() / "scripts" / "regenerate_golden_losses.py"
    spec = importlib.util.spec_from_file_location("regenerate_golden_losses", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def stored(script: ModuleType) -> dict[str, list[float]]:
    """Stored losses by task/attention."""
    losses: dict[str, list[float]] = json.loads(script.STORED.read_text(encoding="utf-8"))["losses"]
    return losses


@pytest.fixture(scope="module")
def data(script: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures for the tasks that have none built in."""
    folder = tmp_path_factory.mktemp("data")
    script.write_data(folder)
    return folder


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("task", TASKS)
def test_twenty_losses_are_those_of_the_file(script, stored, data, tmp_path, task, attention):
    config = script.golden_config(task, attention, data, tmp_path / "run")
    losses = script.golden_losses(config)
    expected = stored[f"{task}/{attention}"]
    assert len(losses) == len(expected) == 20
    for step, (loss, golden) in enumerate(zip(losses, expected, strict=True), start=1):
        assert math.isclose(loss, golden, rel_tol=TOLERANCE), f"step {step}: {loss}, not {golden}"


def test_the_file_holds_these_tasks_and_nothing_else(script, stored):
    assert list(script.TASKS) == TASKS
    assert set(stored) == {f"{task}/{attention}" for task in TASKS for attention in ATTENTIONS}


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("task", TASKS)
def test_no_setting_is_left_to_a_recipe_or_a_default(script, data, tmp_path, task, attention):
    config = script.golden_config(task, attention, data, tmp_path / "run")
    given = {*script.SETTINGS, *script.ATTENTIONS[attention]}
    own = {"run.task", "run.out", "attention.name", "data.root"}
    own |= {"data.image_size", "model.patch_size"}
    assert set(flat(config)) == given | own


def test_every_loss_tells_its_training_apart(stored):
    """Two trainings that could not be told apart would hide a mix-up."""
    last = [round(losses[-1], 6) for losses in stored.values()]
    assert len(set(last)) == len(last)
