"""A study folder read back in every state that its runs can be in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from filelock import FileLock
from made_studies import MadeStudy, write_json

from damcha_core.errors import CheckpointError
from damcha_core.experiments.results.aggregate import groups_of
from damcha_core.experiments.results.reading import read_study

SEVEN = ("mha", "talking-heads", "collaborative", "elliptical", "dcmha", "differential", "damcha")


@pytest.fixture
def made(tmp_path: Path) -> MadeStudy:
    return MadeStudy(tmp_path / "study", attentions=SEVEN)


def test_a_finished_run_has_everything(made) -> None:
    run = made.finish("digits-cls-mha-s0", "digits-cls", "mha", skill=0.8)
    cell = read_study(made.folder).cells[0]
    stored = json.loads((run / "test.json").read_text())
    assert (cell.id, cell.task, cell.attention, cell.seed) == (run.name, "digits-cls", "mha", 0)
    assert (cell.state, cell.reason) == ("done", "")
    assert cell.metrics["top1"].value == stored["metrics"]["top1"]["value"]
    assert list(cell.metrics) == ["top1", "top5", "loss"]
    assert cell.config_hash == stored["config_hash"]
    assert (cell.parameters, cell.seconds) == (513284, 12.5)
    assert cell.multiply_adds is not None
    assert cell.multiply_adds > 1e5
    assert cell.command.endswith("--out digits-cls-mha-s0")
    assert [point.step for point in cell.curve] == [10, 20]
    assert cell.curve[0].train_loss == pytest.approx(sum(2 / s for s in range(1, 11)) / 10)
    assert cell.curve[1].metrics["top1"] == stored["metrics"]["top1"]["value"]
    assert cell.items is not None
    assert len(cell.items.records) == stored["metrics"]["top1"]["n"]


def test_every_state_is_told_apart(made) -> None:
    task = "digits-cls"
    made.finish("digits-cls-mha-s0", task, "mha")
    made.end("digits-cls-talking-heads-s0", task, "talking-heads", "failed", "error: no")
    made.end("digits-cls-collaborative-s0", task, "collaborative", "diverged", "loss is nan")
    begun = made.folder / "digits-cls-elliptical-s0"
    begun.mkdir()
    (begun / "run.toml").touch()
    made.finish("digits-cls-dcmha-s0", task, "dcmha", train__lr=0.5)
    running = made.folder / "digits-cls-differential-s0"
    running.mkdir()
    with FileLock(running / ".lock"):
        cells = read_study(made.folder).cells
    assert [cell.state for cell in cells] == [
        *("done", "failed", "diverged", "interrupted", "out of date", "running", "missing")
    ]
    assert [cell.reason for cell in cells][1:5] == [
        *("error: no", "loss is nan", "", "settings changed since")
    ]


def test_a_cell_that_its_runner_holds_is_running(made) -> None:
    (made.folder / "locks").mkdir()
    with FileLock(made.folder / "locks" / "digits-cls-mha-s0.lock"):
        assert read_study(made.folder).cells[0].state == "running"
    assert read_study(made.folder).cells[0].state == "missing"


def test_another_judge_is_believed(made) -> None:
    made.finish("digits-cls-mha-s0", "digits-cls", "mha")
    judged = {"digits-cls-mha-s0": ("out of date", "code changed since")}
    cell = read_study(made.folder, judged=judged).cells[0]
    assert (cell.state, cell.reason) == judged[cell.id]
    assert cell.metrics


@pytest.mark.parametrize("name", ["test.json", "result.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"[" * 3000, b"\xff", b'{"metrics": {}}'])
def test_a_run_without_good_scores_is_not_done(made, name, content) -> None:
    run = made.finish("digits-cls-mha-s0", "digits-cls", "mha")
    (run / name).write_bytes(content)
    cell = read_study(made.folder).cells[0]
    assert cell.state == "interrupted"
    assert "test.json" in cell.reason
    assert not cell.metrics


def test_a_damaged_record_costs_its_own_run_alone(made) -> None:
    made.finish("digits-cls-mha-s0", "digits-cls", "mha")
    made.finish("digits-cls-damcha-s0", "digits-cls", "damcha")
    (made.folder / "cells" / "digits-cls-mha-s0.json").write_text("{")
    states = {cell.attention: cell.state for cell in read_study(made.folder).cells}
    assert states["mha"] == "interrupted"
    assert states["damcha"] == "done"


def test_small_damage_leaves_a_gap(made) -> None:
    run = made.finish("digits-cls-mha-s0", "digits-cls", "mha")
    for name in ("facts.json", "metrics.jsonl"):
        (run / name).unlink()
    (run / "samples" / "test.jsonl").write_text('{"scores": {}}\n{')
    cell = read_study(made.folder).cells[0]
    assert cell.state == "done"
    assert (cell.multiply_adds, cell.curve, cell.items) == (None, (), None)


def test_a_run_that_the_suite_no_longer_names_comes_last(made) -> None:
    made.finish("digits-cls-gated-s0", "digits-cls", "gated")
    cells = read_study(made.folder).cells
    assert [cell.attention for cell in cells] == [*SEVEN, "gated"]
    assert cells[-1].state == "done"


def test_without_a_suite_the_records_say_what_there_is(made) -> None:
    made.finish("digits-cls-mha-s0", "digits-cls", "mha")
    (made.folder / "suite.toml").unlink()
    assert [cell.id for cell in read_study(made.folder).cells] == ["digits-cls-mha-s0"]


@pytest.mark.parametrize("folder", ["nowhere", "."])
def test_a_folder_without_a_study_is_refused(tmp_path, folder) -> None:
    with pytest.raises(CheckpointError, match="not a study folder"):
        read_study(tmp_path / folder)


def test_no_place_of_the_machine_is_kept(made) -> None:
    reason = f"error: {made.folder}/digits-cls-mha-s0/x: cannot be read"
    made.end("digits-cls-mha-s0", "digits-cls", "mha", "failed", reason)
    cell = read_study(made.folder).cells[0]
    assert cell.reason == "error: digits-cls-mha-s0/x: cannot be read"
    assert str(made.folder) not in cell.command


def test_runs_are_grouped_by_what_is_not_their_seed(tmp_path) -> None:
    grid = {"model.d_model": [64, 128]}
    made = MadeStudy(tmp_path / "g", attentions=("mha",), seeds=2, grid=grid)
    for width, seed in ((64, 0), (64, 1), (128, 0)):
        name = f"digits-cls-mha-d_model{width}-s{seed}"
        made.finish(name, "digits-cls", "mha", seed=seed, model__d_model=width)
    study = read_study(made.folder)
    groups = groups_of(study.cells)
    assert [dict(group.grid) for group in groups] == [{"model.d_model": w} for w in (64, 128)]
    assert [group.states for group in groups] == ["done", "1 done, 1 missing"]
    first = groups[0].metric("top1")
    assert first is not None
    assert first.spread is not None
    values = [cell.metrics["top1"].value for cell in groups[0].cells]
    assert first.spread.mean == pytest.approx(sum(v for v in values if v is not None) / 2)


def test_a_wall_time_of_the_record_fills_in(made) -> None:
    made.end("digits-cls-mha-s0", "digits-cls", "mha", "failed", "no")
    assert read_study(made.folder).cells[0].seconds == 12.5


def test_odd_values_are_none(made) -> None:
    run = made.finish("digits-cls-mha-s0", "digits-cls", "mha")
    record = json.loads((run / "test.json").read_text())
    record["metrics"]["top5"]["value"] = float("nan")
    record["metrics"]["loss"]["value"] = "1.0"
    write_json(run / "test.json", record)
    cell = read_study(made.folder).cells[0]
    assert [cell.metrics[name].value for name in ("top5", "loss")] == [None, None]
