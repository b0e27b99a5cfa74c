"""The rates of --tuned: of the study's own tuning, else those of the package."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import tomli_w

from damcha_core.errors import CheckpointError, UsageError
from damcha_core.experiments import tuned_rates as module
from damcha_core.experiments.study import load_study, plan_study
from damcha_core.experiments.suite import Suite, load_suite, read_suite
from damcha_core.experiments.tuned_rates import TunedRates, tuned_rates, with_tuned_rates

CELLS = {
    "digits/mha": {"chosen": 1e-3},
    "digits/damcha": {"chosen": 2e-3},
    "digits-cls/mha": {"chosen": None},
}
TASKS = ("digits",)


def small_suite() -> Suite:
    override = [{"attention": "damcha", "set": {"train.lr": 0.5}}]
    document = {"tasks": ["digits"], "attentions": ["mha", "damcha"], "override": override}
    return read_suite(document, "mine", "mine.toml")


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file of the package, not yet there."""
    file = tmp_path / "package" / "tuned_rates.toml"
    file.parent.mkdir()
    monkeypatch.setattr(module, "SHIPPED", file)
    return file


def ship(file: Path) -> None:
    tuning = {"suite": "comparison", "code": "0.1.0+abc", "budget": {"name": "tune"}}
    cells = {pair: found for pair, found in CELLS.items() if found["chosen"]}
    file.write_text(tomli_w.dumps({"tuning": tuning, "cells": cells}), encoding="utf-8")


def test_the_tuning_of_the_study_comes_first(shipped, tmp_path):
    ship(shipped)
    cells = {"digits/mha": {"chosen": 0.25}}
    (tmp_path / "tuning.json").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    found = tuned_rates(tmp_path)
    assert found == TunedRates(str(tmp_path / "tuning.json"), False, {"digits/mha": 0.25})
    assert found.provenance == "tuning.json"


def test_a_study_without_one_takes_the_shipped_rates(shipped, tmp_path):
    ship(shipped)
    found = tuned_rates(tmp_path)
    assert found.rates == {"digits/mha": 1e-3, "digits/damcha": 2e-3}
    assert found.is_shipped
    for words in ("shipped with damcha", "suite comparison", "budget tune", "0.1.0+abc"):
        assert words in found.origin


def test_the_chosen_rates_beat_those_of_the_suite(shipped, tmp_path):
    ship(shipped)
    found = tuned_rates(tmp_path)
    tuned = with_tuned_rates(small_suite(), found, TASKS, "damcha suite tune")
    study = replace(plan_study(tuned, out=tmp_path / "study"), rates=found.provenance)
    rates = {cell.attention: cell.settings["train.lr"] for cell in study.cells}
    assert rates == {"mha": 1e-3, "damcha": 2e-3}
    study.store()
    assert load_study(tmp_path / "study").rates == found.origin
    by_hand = plan_study(tuned, out=tmp_path / "other")
    assert by_hand.cells == study.cells  # the rate itself is what counts
    assert "rates" not in by_hand.document()


def test_no_pair_is_given_a_rate_of_another(shipped, tmp_path):
    again = "damcha suite tune mine"
    with pytest.raises(UsageError, match=r"no rate is shipped for digits/mha, digits/damcha, and"):
        with_tuned_rates(small_suite(), tuned_rates(tmp_path), TASKS, again)
    ship(shipped)
    with pytest.raises(UsageError, match=rf"no rate is shipped for cifar10/mha.*{again}, or leave"):
        with_tuned_rates(small_suite(), tuned_rates(tmp_path), ["cifar10"], again)
    (tmp_path / "tuning.json").write_text(json.dumps({"cells": CELLS}), encoding="utf-8")
    with pytest.raises(UsageError, match=rf"no rate was chosen for digits-cls/mha.*finish {again}"):
        with_tuned_rates(small_suite(), tuned_rates(tmp_path), ["digits-cls"], again)


def test_a_damaged_tuning_is_named(tmp_path):
    for text in ("{", '{"cells": {"a/b": 3}}', '{"cells": {"a/b": {"chosen": -1.0}}}'):
        (tmp_path / "tuning.json").write_text(text, encoding="utf-8")
        with pytest.raises(CheckpointError, match=r"tuning\.json: damaged"):
            tuned_rates(tmp_path)


def test_what_is_shipped_is_sound():
    found = module.shipped_rates()
    pairs = {
        f"{task}/{attention}"
        for task in ("digits", "digits-cls", "cldr", "concepts")
        for attention in load_suite("comparison").attentions
    }
    assert set(found.rates) in (set(), pairs)
