"""The scripts behind the documentation and the demo."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import markdown_page as pages
import pytest

from damcha_core.config.toml_text import parse_toml
from damcha_core.experiments import tuned_rates

SCRIPTS = pages.REPOSITORY / "scripts"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> ModuleType:
    """A script as a module."""
    monkeypatch.syspath_prepend(SCRIPTS)
    return importlib.import_module(request.param)


@pytest.mark.parametrize("script", ["build_reference"], indirect=True)
def test_the_generated_pages_are_up_to_date(script: ModuleType):
    assert script.outdated() == [], "write them again: make reference"


@pytest.mark.parametrize("script", ["build_reference"], indirect=True)
def test_an_old_page_is_named_and_written_again(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(script, "FOLDER", tmp_path / "reference")
    with pytest.raises(SystemExit, match=r"out of date in docs/reference: attentions\.md, cli\.md"):
        script.main(["--check"])
    script.main([])
    script.main(["--check"])
    with pytest.raises(SystemExit, match="unknown arguments --chekc"):
        script.main(["--chekc"])


@pytest.mark.parametrize("script", ["mathematics"], indirect=True)
def test_all_formulas_of_the_pages_become_mathml(script: ModuleType):
    found = [block for path in pages.PAGES for block in pages.blocks_in(path, "math")]
    assert found
    for block in found:
        html = script.on_page_markdown(f"before\n\n```math\n{block.text}```\n\nafter")
        assert html.count("<math ") == block.text.strip().count("\n\n") + 1
        assert "\\" not in html  # a command that the converter does not know stays as it is


@pytest.mark.parametrize("script", ["demo_table"], indirect=True)
def test_the_table_of_the_demo(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    def scores(mse: float) -> dict[str, dict[str, float]]:
        return {
            name: {"value": mse * factor}
            for name, factor in zip(script.METRICS, (1, 500, 30), strict=True)
        }

    for attention, mse in (("damcha", 0.02), ("mha", 0.025)):
        folder = tmp_path / attention
        (folder / "samples").mkdir(parents=True)
        result = {"attention": attention, "parameters": 513284, "seconds": 12.3}
        test = {"metrics": scores(mse), "floors": {name: scores(0.07) for name in script.FLOORS}}
        (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
        (folder / "test.json").write_text(json.dumps(test), encoding="utf-8")
    (tmp_path / "damcha" / script.GRID).touch()

    script.main([tmp_path / "damcha", tmp_path / "mha"])

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["damcha", "513,284", "0.02", "10", "0.6", "12"] in lines
    assert ["mha", "513,284", "0.025", "12.5", "0.75", "12"] in lines
    assert ["floor:", "harmonic", "fill", "-", "0.07", "35", "2.1", "-"] in lines
    assert ["pictures", str(tmp_path / "damcha" / script.GRID)] in lines


def made_tuning() -> dict[str, Any]:
    def cell(metric: str, best: float | None) -> dict[str, Any]:
        return {
            "metric": metric,
            "better": "lower",
            "scores": {"0.001": 0.25, "0.002": None},
            "states": {"0.001": "done", "0.002": "diverged"},
            "runs": {"0.001": "tune/a", "0.002": "tune/b"},
            "chosen": best,
            "edge": True,
        }

    return {
        "schema": 1,
        "suite": "comparison",
        "builtin": True,
        "split": "valid",
        "seed": 0,
        "code": "0.1.0+abc",
        "grid": [0.001, 0.002],
        "grids": {"digits": [0.001, 0.002]},
        "budget": {"name": "tune", "settings": {"digits": {"train.epochs": 15}}, "set": {}},
        "cells": {name: cell("masked_mse", 0.001) for name in ("digits/mha", "digits/damcha")},
    }


@pytest.mark.parametrize("script", ["store_tuned_rates"], indirect=True)
def test_the_choices_of_a_tuning_become_the_shipped_file(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    source, file = tmp_path / "tuning.json", tmp_path / "tuned_rates.toml"
    record = made_tuning()
    source.write_text(json.dumps(record), encoding="utf-8")
    script.main([str(source), "--out", str(file)])
    text = file.read_text(encoding="utf-8")
    turned = {**record, "cells": dict(reversed(record["cells"].items()))}
    assert script.rates_text(turned) == text
    stored = parse_toml(text, "tuned_rates.toml")
    assert stored["tuning"] == {key: record[key] for key in script.KEYS}
    assert stored["cells"]["digits/mha"] == {
        "chosen": 0.001,
        "edge": True,
        "metric": "masked_mse",
        "better": "lower",
        "scores": {"0.001": 0.25, "0.002": "diverged"},
    }
    monkeypatch.setattr(tuned_rates, "SHIPPED", file)
    found = tuned_rates.shipped_rates()
    assert found.rates == {"digits/mha": 0.001, "digits/damcha": 0.001}
    assert "suite comparison, budget tune, code 0.1.0+abc" in found.origin


@pytest.mark.parametrize("script", ["store_tuned_rates"], indirect=True)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"builtin": False}, "not of built-in tasks"),
        ({"cells": {}}, "no cells"),
        ({"grids": {"digits": [0.001, 0.002, 0.004]}}, "not all rates of its task were tried"),
    ],
)
def test_a_tuning_that_is_not_fit_to_be_shipped_is_refused(
    script: ModuleType, tmp_path: Path, change: dict[str, Any], words: str
):
    source = tmp_path / "tuning.json"
    source.write_text(json.dumps({**made_tuning(), **change}), encoding="utf-8")
    with pytest.raises(SystemExit, match=words):
        script.main([str(source), "--out", str(tmp_path / "x")])
    unfinished = made_tuning()
    unfinished["cells"]["digits/mha"]["chosen"] = None
    with pytest.raises(ValueError, match="no rate was chosen; finish"):
        script.rates_text(unfinished)
    del unfinished["code"]
    with pytest.raises(ValueError, match="no code in it"):
        script.rates_text(unfinished)
