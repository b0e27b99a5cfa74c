"""From a suite to cells, commands and the stored suite.toml."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from small_studies import FOUR_CELLS, small_study
from typer.testing import CliRunner

from damcha_cli.commands import train as train_command
from damcha_core.config.identity import config_hash
from damcha_core.errors import CheckpointError, ConfigError, UsageError
from damcha_core.experiments.expansion import expand
from damcha_core.experiments.study import load_study, plan_study
from damcha_core.experiments.suite import load_suite, suite_names

GRID = '[grid]\n"model.d_model" = [64, 128]\n"train.lr" = [1e-3, 2e-3]\n'


@pytest.mark.parametrize(
    ("name", "n_cells"),
    [
        ("study", 28),
        ("ablations", 52),
        ("comparison", 40),
        ("scaling", 36),
        ("diagnostics", 36),
        ("diagnostics-heads", 27),
    ],
)
@pytest.mark.parametrize("builtin", [False, True])
def test_the_shipped_suites_have_valid_cells(name, n_cells, builtin):
    cells = expand(load_suite(name), builtin=builtin, seeds=2)
    assert len({cell.id for cell in cells}) == 2 * n_cells
    assert {cell.seed for cell in cells} == {0, 1}


def test_the_built_in_study_is_small_and_changes_nothing_for_damcha():
    cells = expand(load_suite("study"), builtin=True)
    assert [cell.task for cell in cells[::7]] == ["digits", "digits-cls", "cldr", "concepts"]
    by_task = {task: {tuple(c.settings.items()) for c in cells if c.task == task} for task in
               ("digits", "digits-cls", "cldr", "concepts")}  # fmt: skip
    assert all(len(settings) == 1 for settings in by_task.values())
    assert {"eval.beam": 1}.items() <= dict(next(iter(by_task["cldr"]))).items()


def test_names_say_the_grid_and_the_seed():
    study = small_study(Path("x"), FOUR_CELLS + GRID, seeds=2)
    assert study.cells[0].id == "digits-mha-d_model64-lr0.001-s0"
    assert study.cells[-1].id == "digits-cls-damcha-d_model128-lr0.002-s1"
    both = '[grid]\n"train.batch_size" = [8]\n"eval.batch_size" = [9]\n'
    assert small_study(Path("x"), FOUR_CELLS + both).cells[0].id == (
        "digits-mha-train.batch_size8-eval.batch_size9-s0"
    )


def test_a_later_place_beats_an_earlier_one():
    text = """
[budget.b.digits]
"train.lr" = 1e-3
"train.epochs" = 2
"train.patience" = 3
[[override]]
attention = "damcha"
set = { "train.lr" = 2e-3, "train.patience" = 4 }
[[override]]
task = "digits"
attention = "damcha"
seed = 1
set = { "train.lr" = 3e-3 }
"""
    suite = small_study(Path("x"), FOUR_CELLS + text).suite
    study_suite = load_like(suite, text)
    cells = {c.id: c for c in expand(study_suite, seeds=2, budget="b", sets=["train.patience=5"])}
    assert cells["digits-mha-s0"].settings["train.lr"] == 1e-3
    assert cells["digits-damcha-s0"].settings["train.lr"] == 2e-3
    assert cells["digits-damcha-s1"].settings["train.lr"] == 3e-3
    assert cells["digits-cls-mha-s0"].settings == {"train.patience": 5}
    assert cells["digits-damcha-s1"].config(Path("o")).train.patience == 5


def load_like(suite, text):
    from damcha_core.config.toml_text import parse_toml
    from damcha_core.experiments.suite import read_suite

    return read_suite(parse_toml(FOUR_CELLS + text, "s.toml"), suite.name, "s.toml")


def test_what_a_command_says_is_what_the_cell_is(tmp_path, monkeypatch):
    """The flags and --set of the printed command resolve to the settings of the cell."""
    resolved = []
    monkeypatch.setattr(train_command, "_start", lambda config, _world: resolved.append(config))
    monkeypatch.setattr(train_command, "_print_outcome", lambda _outcome, _json: None)
    from damcha_cli.app import app

    more = (
        '[[override]]\nattention = "damcha"\nset = { attention.mlp_hidden = [8, 9] }\n'
        '[[override]]\nset = { run.device = "cpu", data.root = "1", train.compile = true }\n'
    )
    study = small_study(tmp_path / "a b", FOUR_CELLS + more + GRID)
    for cell in study.cells:
        out = study.folder.run(cell.id).path
        line = shlex.join(cell.command(out, threads=2))
        words = shlex.split(line)
        assert words[:2] == ["damcha", "train"]
        assert CliRunner().invoke(app, words[1:]).exit_code == 0
        planned = cell.config(out)
        assert resolved[-1].run.threads == 2
        assert resolved[-1].run.out == planned.run.out
        assert config_hash(resolved[-1]) == config_hash(planned)
        assert resolved[-1].data.root == "1"


@pytest.mark.parametrize("name", suite_names())
def test_a_stored_study_reads_back_equal(name, tmp_path):
    study = plan_study(
        load_suite(name), out=tmp_path / "s", seeds=2, builtin=True, sets=['run.device="cpu"']
    )
    study.store()
    read = load_study(tmp_path / "s")
    assert read.cells == study.cells
    assert read.document() == study.document()
    study.store()


def test_a_folder_keeps_to_its_suite(tmp_path):
    plan_study(load_suite("study"), out=tmp_path, builtin=True).store()
    with pytest.raises(UsageError, match="holds the study study on built-in data"):
        plan_study(load_suite("study"), out=tmp_path).store()
    plan_study(load_suite("study"), out=tmp_path, builtin=True, seeds=3).store()
    assert load_study(tmp_path).seeds == 3


def test_what_is_no_study_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="no such folder"):
        load_study(tmp_path / "x")
    with pytest.raises(CheckpointError, match=r"no suite\.toml in it"):
        load_study(tmp_path)
    (tmp_path / "suite.toml").write_text(FOUR_CELLS, encoding="utf-8")
    with pytest.raises(ConfigError, match="damaged"):
        load_study(tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seeds": 0}, "at least 1"),
        ({"budget": "smal"}, "did you mean small?"),
        ({"sets": ["train.lr=0"]}, "cifar10 with mha and 27 more cells: train.lr = 0"),
        ({"sets": ["run.seed=1"]}, "--seeds settles it"),
        ({"sets": ["lr=1"]}, "write --set section.key=value"),
        ({"sets": ["attention.mlp_hidden=[8]"]}, "mha"),
    ],
)
def test_bad_choices_are_refused_before_anything_is_written(options, words, tmp_path):
    with pytest.raises(UsageError, match=words.replace("?", r"\?")):
        plan_study(load_suite("study"), out=tmp_path / "s", **options)
    assert not (tmp_path / "s").exists()


def test_a_grid_key_cannot_be_set_for_all(tmp_path):
    with pytest.raises(ConfigError, match="varies it"):
        plan_study(load_suite("scaling"), sets=["model.d_model=8"])
