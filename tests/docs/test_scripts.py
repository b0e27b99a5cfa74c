"""The scripts behind the documentation and the demo."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import markdown_page as pages
import pytest

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
