"""A tuning from its plan to the choice, with runs that really train."""

from __future__ import annotations

import json

import pytest
from tiny_data import tiny_root
from tiny_runs import SETTINGS

from damcha_core.experiments.cell import as_toml
from damcha_core.experiments.study_observer import StudyObserver
from damcha_core.experiments.suite import read_suite
from damcha_core.experiments.tuned_rates import tuned_rates
from damcha_core.experiments.tuning import plan_tuning, tune

SETTLED = ("run.task", "run.seed", "attention.name", "train.lr")


class Started(StudyObserver):
    """Keeps what was started."""

    def __init__(self) -> None:
        self.cells: list[str] = []

    def started(self, cell, *, resumed):
        self.cells.append(cell.id)


@pytest.mark.slow
def test_what_trains_best_on_valid_is_chosen_and_test_is_not_looked_at(tmp_path):
    suite = read_suite({"tasks": ["cifar10"], "attentions": ["damcha"]}, "mine", "mine.toml")
    settings = {key: value for key, value in SETTINGS.items() if key not in SETTLED}
    settings |= {"data.root": str(tiny_root()), "train.max_steps": 4}
    sets = [f"{key}={as_toml(value)}" for key, value in settings.items()]
    plan = plan_tuning(suite, out=tmp_path, grid=[1e-2, 1e-6], sets=sets)
    first = Started()
    outcome = tune(plan, None, first)
    assert sorted(first.cells) == sorted(cell.id for cell in plan.cells)
    assert outcome.exit_code == 0
    record = json.loads((tmp_path / "tuning.json").read_text(encoding="utf-8"))
    assert record == outcome.record
    pair = record["cells"]["cifar10/damcha"]
    assert pair["states"] == {"1e-06": "done", "0.01": "done"}
    for rate, run in pair["runs"].items():
        result = json.loads((tmp_path / run / "result.json").read_text(encoding="utf-8"))
        assert result["split"] == "valid"
        assert pair["scores"][rate] == result["metrics"]["masked_mse"]["value"]
    assert (pair["chosen"], pair["edge"]) == (1e-2, True)  # the other one learns nothing
    assert tuned_rates(tmp_path).rates == {"cifar10/damcha": 1e-2}
    assert list(tmp_path.rglob("test.*")) == []
    again = Started()
    assert tune(plan, None, again).record == record
    assert again.cells == []
    wide, added = plan_tuning(suite, out=tmp_path, grid=[1e-2, 1e-6, 2e-2], sets=sets), Started()
    pair = tune(wide, None, added).record["cells"]["cifar10/damcha"]
    assert added.cells == ["cifar10-damcha-lr0.02-s0"]  # what is done is not done again
    assert set(pair["states"].values()) == {"done"}
