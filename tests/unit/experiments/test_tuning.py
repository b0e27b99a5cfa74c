"""Choosing a learning rate: the grid, what counts as its best, and how a study takes it up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from damcha_core.errors import ConfigError, UsageError
from damcha_core.experiments.cell_state import Standing, State
from damcha_core.experiments.rate_grid import GRID
from damcha_core.experiments.runner import StudyOutcome
from damcha_core.experiments.study import Study
from damcha_core.experiments.suite import Suite, load_suite, read_suite
from damcha_core.experiments.tuning import (
    TuningFolder,
    load_tuning,
    plan_tuning,
    tuning_record,
    with_kept_tasks,
)

THREE = (3e-4, 1e-3, 3e-3)


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
    return plan_tuning(small_suite(), out=tmp_path, grid=THREE)


def test_the_cells_vary_the_rate_alone(plan, tmp_path):
    assert plan.folder.path == tmp_path / "tune"
    assert isinstance(plan.folder, TuningFolder)
    assert len(plan.cells) == 2 * 2 * len(THREE)
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
    record = score(plan, dict(zip(map(repr, THREE), values, strict=True)))
    for pair, found in record["cells"].items():
        wanted = lower if pair.startswith("digits/") else higher
        assert (found["chosen"], found["edge"]) == wanted, pair
        shown = [None if isinstance(value, State) else value for value in values]
        assert list(found["scores"].values()) == shown
        assert list(found["scores"]) == ["0.0003", "0.001", "0.003"]
    assert record["grid"] == list(THREE)
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
    record = score(plan, dict.fromkeys(map(repr, THREE), State.DIVERGED))
    assert {pair["chosen"] for pair in record["cells"].values()} == {None}


def test_what_was_not_run_is_looked_at(plan):
    states = tuning_record(plan)["cells"]["digits/mha"]["states"]
    assert set(states.values()) == {"missing"}


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


def test_the_grid_is_the_usual_one_until_another_was_tried(tmp_path):
    plan = plan_tuning(small_suite(), out=tmp_path)
    assert tuple(plan.suite.grid["train.lr"]) == GRID
    plan_tuning(small_suite(), out=tmp_path, grid=THREE).store()
    assert tuple(plan_tuning(small_suite(), out=tmp_path).suite.grid["train.lr"]) == THREE


def test_a_wider_grid_keeps_the_cells_that_are_done(tmp_path):
    narrow = plan_tuning(small_suite(), out=tmp_path, grid=THREE)
    narrow.store()
    wide = plan_tuning(small_suite(), out=tmp_path, grid=[*THREE, 9e-3])
    wide.store()  # is not refused
    assert [cell for cell in wide.cells if cell in narrow.cells] == list(narrow.cells)
    assert load_tuning(tmp_path).cells == wide.cells


def test_a_task_that_is_not_widened_keeps_its_choice(plan, tmp_path):
    before = score(plan, {"0.0003": 0.3, "0.001": 0.2, "0.003": 0.1})
    wide = tuning_record(plan_tuning(small_suite(), out=tmp_path, grid=[*THREE, 9e-3]))
    after = with_kept_tasks(wide, before, {"digits"})
    assert after["grids"] == {"digits": [*THREE, 9e-3], "digits-cls": list(THREE)}
    assert after["grid"] == [*THREE, 9e-3]
    for attention in ("mha", "damcha"):
        kept = f"digits-cls/{attention}"
        assert after["cells"][kept] == before["cells"][kept]
        assert after["cells"][f"digits/{attention}"]["chosen"] is None
    narrow = tuning_record(plan)
    assert with_kept_tasks(narrow, after, {"digits-cls"})["grid"] == [*THREE, 9e-3]


@pytest.mark.parametrize(
    "change",
    [
        {"code": "x"},
        {"suite": "x"},
        {"budget": {"name": "x", "settings": {}, "set": {}}},
        {"budget": {"name": "recipe", "settings": {}, "set": {"train.epochs": 1}}},
    ],
)
def test_what_was_chosen_otherwise_is_not_kept(plan, change):
    before = score(plan, {"0.0003": 0.3, "0.001": 0.2, "0.003": 0.1})
    now = tuning_record(plan_tuning(small_suite(), out=plan.folder.path / "x"))
    assert with_kept_tasks(now, {**before, **change}, {"digits"}) == now
    assert with_kept_tasks(now, {}, {"digits"}) == now
