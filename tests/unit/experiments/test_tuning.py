"""Choosing a learning rate: the grid, what counts as its best, and how a study takes it up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from damcha_core.errors import CheckpointError, ConfigError, UsageError
from damcha_core.experiments.cell_state import Standing, State
from damcha_core.experiments.expansion import chosen_tasks
from damcha_core.experiments.runner import StudyOutcome
from damcha_core.experiments.study import Study, plan_study
from damcha_core.experiments.suite import Override, Suite, load_suite, read_suite
from damcha_core.experiments.tuning import (
    GRID,
    TuningFolder,
    load_tuning,
    plan_tuning,
    tuned_overrides,
    tuning_record,
    with_tuned_rates,
)


def small_suite(**more: Any) -> Suite:
    document = {"tasks": ["digits", "digits-cls"], "attentions": ["mha", "damcha"], **more}
    return read_suite(document, "mine", "mine.toml")


def score(plan: Study, values: dict[str, float | State]) -> dict[str, Any]:
    """The record when cells came to these scores (by rate, the same for all), or to a state."""
    standings = {}
    for cell in plan.cells:
        value = values[repr(cell.settings["train.lr"])]
        standings[cell.id] = Standing(value if isinstance(value, State) else State.DONE)
        if not isinstance(value, State):
            run = plan.folder.run(cell.id)
            run.path.mkdir(parents=True)
            metric = "masked_mse" if cell.task == "digits" else "top1"
            result = {"metrics": {metric: {"value": value}}, "step": 1}
            run.result_file.write_text(json.dumps(result), encoding="utf-8")
    return tuning_record(plan, StudyOutcome(standings))


@pytest.fixture
def plan(tmp_path: Path) -> Study:
    return plan_tuning(small_suite(), out=tmp_path)


def test_the_cells_vary_the_rate_alone(plan, tmp_path):
    assert plan.folder.path == tmp_path / "tune"
    assert isinstance(plan.folder, TuningFolder)
    assert len(plan.cells) == 2 * 2 * len(GRID)
    assert {cell.seed for cell in plan.cells} == {0}
    assert "digits-damcha-lr0.0003-s0" in {cell.id for cell in plan.cells}
    for cell in plan.cells:
        assert cell.config(Path("x")).train.lr == cell.settings["train.lr"]
        assert set(cell.settings) == {"train.lr"}


def test_every_attention_has_the_same_grid_whatever_the_suite_had_chosen(tmp_path):
    suite = small_suite(
        override=[
            {"attention": "damcha", "set": {"train.lr": 0.5, "train.epochs": 7}},
            {"task": "digits", "set": {"train.lr": 0.25}},
        ],
        budget={"small": {"digits": {"train.max_steps": 9, "train.lr": 0.75}}},
    )
    plan = plan_tuning(suite, out=tmp_path, grid=[0.02, 0.01], budget="small")
    rates = {
        (c.task, c.attention): {o.settings["train.lr"] for o in plan.cells if o.task == c.task}
        for c in plan.cells
    }
    assert all(rate == {0.01, 0.02} for rate in rates.values())
    epochs = {c.attention: c.settings.get("train.epochs") for c in plan.cells}
    assert epochs == {"mha": None, "damcha": 7}
    budget = tuning_record(plan)["budget"]
    assert budget["name"] == "small"
    assert budget["settings"]["digits"]["train.max_steps"] == 9


def test_a_stored_plan_comes_back(plan, tmp_path):
    plan.store()
    loaded = load_tuning(tmp_path)
    assert loaded.cells == plan.cells
    assert isinstance(loaded.folder, TuningFolder)


@pytest.mark.parametrize(
    "grid",
    [[], [1e-3], [1e-3, 1e-3], [0.0, 1.0], [-1.0, 1.0], [float("nan"), 1.0], [float("inf"), 1.0]],
)
def test_a_grid_is_two_rates_at_least(grid):
    with pytest.raises(UsageError, match=r"--grid .*at least two different rates"):
        plan_tuning(small_suite(), grid=grid)


def test_a_suite_with_a_grid_is_not_tuned():
    with pytest.raises(UsageError, match=r"varies model\.d_model"):
        plan_tuning(small_suite(grid={"model.d_model": [16, 32]}))


def test_the_rate_cannot_be_set_for_all():
    with pytest.raises(ConfigError, match=r"train\.lr is refused"):
        plan_tuning(small_suite(), sets=["train.lr=0.5"])


@pytest.mark.parametrize(
    ("values", "lower", "higher"),
    [
        ((0.3, 0.1, 0.2), (1e-3, False), (3e-4, True)),
        ((0.3, 0.2, 0.1), (3e-3, True), (3e-4, True)),
        ((0.2, 0.2, 0.2), (3e-4, True), (3e-4, True)),
        ((0.3, 0.2, State.DIVERGED), (1e-3, False), (3e-4, True)),
        ((State.DIVERGED, State.DIVERGED, 0.4), (3e-3, True), (3e-3, True)),
    ],
)
def test_the_best_on_valid_is_chosen_in_the_direction_of_the_metric(plan, values, lower, higher):
    record = score(plan, dict(zip(map(repr, GRID), values, strict=True)))
    for pair, found in record["cells"].items():
        wanted = lower if pair.startswith("digits/") else higher
        assert (found["chosen"], found["edge"]) == wanted, pair
        shown = [None if isinstance(value, State) else value for value in values]
        assert list(found["scores"].values()) == shown
        assert list(found["scores"]) == ["0.0003", "0.001", "0.003"]
    assert record["grid"] == list(GRID)
    assert (record["schema"], record["seed"], record["split"]) == (1, 0, "valid")
    assert record["cells"]["digits/mha"]["runs"]["0.001"] == "tune/digits-mha-lr0.001-s0"
    json.dumps(record, allow_nan=False)


@pytest.mark.parametrize("state", [State.FAILED, State.MISSING, State.OUT_OF_DATE, State.RUNNING])
def test_nothing_is_chosen_from_part_of_a_grid(plan, state):
    record = score(plan, {"0.0003": 0.3, "0.001": 0.2, "0.003": state})
    assert {pair["chosen"] for pair in record["cells"].values()} == {None}
    assert {pair["edge"] for pair in record["cells"].values()} == {None}
    assert record["cells"]["digits/mha"]["states"]["0.003"] == state.value


def test_where_all_diverge_nothing_is_chosen(plan):
    record = score(plan, dict.fromkeys(map(repr, GRID), State.DIVERGED))
    assert {pair["chosen"] for pair in record["cells"].values()} == {None}


def test_what_was_not_run_is_looked_at(plan):
    states = tuning_record(plan)["cells"]["digits/mha"]["states"]
    assert set(states.values()) == {"missing"}


def test_a_study_takes_the_chosen_rates_up(plan, tmp_path):
    record = score(plan, {"0.0003": 0.3, "0.001": 0.1, "0.003": 0.2})
    (tmp_path / "tuning.json").write_text(json.dumps(record), encoding="utf-8")
    overrides = tuned_overrides(tmp_path)
    assert Override({"train.lr": 1e-3}, task="digits", attention="mha") in overrides
    assert len(overrides) == 4
    suite = small_suite(override=[{"attention": "damcha", "set": {"train.lr": 0.5}}])
    tuned = with_tuned_rates(suite, tmp_path, chosen_tasks(suite, builtin=False))
    study = plan_study(tuned, out=tmp_path / "study", sets=["train.epochs=2"])
    rates = {(c.task, c.attention): c.settings["train.lr"] for c in study.cells}
    assert rates == {
        ("digits", "mha"): 1e-3,
        ("digits", "damcha"): 1e-3,
        ("digits-cls", "mha"): 3e-4,
        ("digits-cls", "damcha"): 3e-4,
    }
    study.store()  # rates of other pairs would be refused in a stored suite
    smaller = replace(small_suite(), attentions=("mha",))
    assert len(with_tuned_rates(smaller, tmp_path, ["digits"]).overrides) == 1
    with pytest.raises(UsageError, match=r"no rate was chosen for digits/elliptical; finish"):
        with_tuned_rates(replace(suite, attentions=("elliptical",)), tmp_path, ["digits"])


def test_a_missing_or_damaged_tuning_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"tuning\.json: there is no such file.*suite tune"):
        tuned_overrides(tmp_path)
    for text in ("{", '{"cells": {"a/b": 3}}', '{"cells": {"a/b": {"chosen": -1.0}}}'):
        (tmp_path / "tuning.json").write_text(text, encoding="utf-8")
        with pytest.raises(CheckpointError, match=r"tuning\.json: damaged"):
            tuned_overrides(tmp_path)


def test_the_whole_study_on_built_in_data_can_be_tuned(tmp_path):
    plan = plan_tuning(load_suite("study"), out=tmp_path, builtin=True)
    assert len(plan.cells) == 28 * len(GRID)
    assert plan.budget == "small"


def test_the_scores_of_a_tuning_are_those_of_the_result(plan):
    cell = plan.cells[0].id
    folder = plan.folder
    assert folder.test_file(cell) == folder.run(cell).result_file
    assert not folder.has_scores(cell)
    folder.run(cell).path.mkdir(parents=True)
    folder.run(cell).result_file.write_text('{"step": 3}', encoding="utf-8")
    assert folder.has_scores(cell)
