"""`damcha eval`: the same numbers however they are computed, from wherever the run lies."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from command_line import SMALL, damcha
from tiny_runs import last_folder

from damcha_core.catalog.tasks import task_row
from damcha_core.train.checkpoint import read_checkpoint
from damcha_core.train.trained_run import load_run


@pytest.mark.parametrize("run", ["digits_run", "classifier_run"])
def test_the_batch_size_moves_no_digit(run, request) -> None:
    folder = request.getfixturevalue(run)
    texts = {
        damcha("eval", folder, "--json", *batch).done().out
        for batch in (
            ("--batch-size", 1),
            ("--batch-size", 7),
            ("--batch-size", 1000),
            ("--set", "eval.batch_size=13"),
            ("--set", "data.workers=0", "--set", "run.threads=1"),
        )
    }
    assert len(texts) == 1


def test_the_record_has_what_the_design_says(digits_run) -> None:
    record = damcha("eval", digits_run, "--json").json()
    stated = ("schema", "run", "task", "attention", "split", "step", "seed")
    assert [record[key] for key in stated] == [1, "digits", "digits", "damcha", "valid", 42, 4]
    assert len(record["config_hash"]) == 64
    metrics = task_row("digits").metrics
    for scores in (record["metrics"], *record["floors"].values()):
        assert list(scores) == [metric.name for metric in metrics]
        for metric in metrics:
            score = scores[metric.name]
            assert (score["unit"], score["better"]) == (metric.unit, metric.better)
            assert score["n"] == (250 * 8 * 4 if metric.name in MASKED else 250)
            assert isinstance(score["value"], float)
    assert list(record["floors"]) == ["mean_training_picture", "visible_mean", "harmonic_fill"]
    assert record["details"]["mask_ratio"] == 0.5


MASKED = ("masked_mse", "masked_mean_absolute_error")


def test_result_json_of_the_run_says_the_same(digits_run) -> None:
    record = damcha("eval", digits_run, "--json").json()
    result = json.loads((digits_run / "result.json").read_text(encoding="utf-8"))
    assert {key: result[key] for key in record} == record


def test_values_have_twelve_digits_at_most(digits_run) -> None:
    record = damcha("eval", digits_run, "--json").json()
    for score in record["metrics"].values():
        assert score["value"] == float(f"{score['value']:.12g}")


def test_the_test_split_is_scored_only_when_asked_for(digits_run, monkeypatch) -> None:
    from damcha_core.tasks.image_task import ImageTask

    asked, split = [], ImageTask.split

    def noted(task: ImageTask, name: str) -> object:
        asked.append(name)
        return split(task, name)

    monkeypatch.setattr(ImageTask, "split", noted)
    assert damcha("eval", digits_run, "--json").json()["split"] == "valid"
    assert "test" not in asked
    records = [damcha("eval", digits_run, "--json", "--split", s).json() for s in SPLITS]
    assert [record["split"] for record in records] == list(SPLITS)
    values = {record["metrics"]["masked_mse"]["value"] for record in records}
    assert len(values) == 3
    by_key = damcha("eval", digits_run, "--json", "--set", "eval.split='test'").json()
    assert by_key == records[SPLITS.index("test")]


SPLITS = ("train", "valid", "test")


def test_a_checkpoint_is_chosen_by_pointer_step_or_name(digits_run) -> None:
    def step(*which: object) -> int:
        return damcha("eval", digits_run, "--json", *which).json()["step"]

    assert step() == step("--checkpoint", "best") == step("--checkpoint", "last") == 42
    assert step("--checkpoint", 21) == step("--checkpoint", "step-00000021") == 21
    damcha("eval", digits_run, "--checkpoint", 7).refused(4, "'7'", "step-00000021")


def test_another_mask_ratio_is_another_question_to_the_same_run(digits_run) -> None:
    plain = damcha("eval", digits_run, "--json").json()
    other = damcha("eval", digits_run, "--json", "--set", "data.mask_ratio=0.25").json()
    assert other["details"]["mask_ratio"] == 0.25
    assert other["config_hash"] == plain["config_hash"]
    assert other["metrics"] != plain["metrics"]
    nothing = damcha("eval", digits_run, "--json", "--set", "data.mask_ratio=0").json()
    assert nothing["metrics"]["masked_mse"]["value"] is None
    assert nothing["metrics"]["psnr"]["value"] == 100


def test_a_moved_run_gives_the_same_numbers_from_anywhere(
    digits_run, tmp_path, monkeypatch
) -> None:
    before = damcha("eval", digits_run, "--json").json()
    copy = tmp_path / "moved"
    shutil.copytree(digits_run, copy / "renamed")
    monkeypatch.chdir(copy)
    after = damcha("eval", "renamed", "--json").json()
    assert after == {**before, "run": "renamed"}
    monkeypatch.chdir("renamed")
    assert damcha("eval", ".", "--json").json() == after


def test_a_run_with_averaged_weights_is_scored_by_them() -> None:
    flags = ("--set", "train.ema_decay=0.5", "--set", "train.max_steps=3", "--out", "run")
    damcha("train", *SMALL, *flags).done()
    content = read_checkpoint(last_folder(Path("run")))
    model = load_run(Path("run")).model.state_dict()
    for name, value in model.items():
        assert torch.equal(value, content.tensors[f"ema/{name}"].double())
    assert any(not torch.equal(model[n], w.double()) for n, w in content.weights.items())


def test_evaluating_writes_the_items_of_the_split_and_nothing_else(digits_run) -> None:
    samples = digits_run / "samples"

    def state() -> list[tuple[Path, int]]:
        paths = [path for path in digits_run.rglob("*") if path not in (samples, items)]
        return sorted((path, path.stat().st_mtime_ns) for path in paths)

    items = samples / "test.jsonl"
    before = state()
    record = damcha("eval", digits_run, "--split", "test", "--json").json()
    assert state() == before
    assert list(Path().iterdir()) == []
    kept = [json.loads(line) for line in items.read_text(encoding="utf-8").split("\n")[:-1]]
    assert [item["id"] for item in kept] == list(range(250))
    mean = sum(item["scores"]["psnr"] for item in kept) / 250
    assert record["metrics"]["psnr"]["value"] == pytest.approx(mean, rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--split", "nope"), ("--split", '"valid"')),
        (("--batch-size", 0), ("--batch-size", "from 1")),
        (("--set", "train.lr=1"), ("train.lr cannot change", "data.mask_ratio")),
        (("--set", "model.d_model=32"), ("model.d_model cannot change",)),
        (("--set", "nonsense"), ("--set section.key=value",)),
        (("--set", "data.mask_ratio=nan"), ("from 0 to 1",)),
    ],
    ids=str,
)
def test_what_cannot_be_evaluated_is_refused(arguments, words, digits_run) -> None:
    damcha("eval", digits_run, *arguments).refused(2, *words, most_lines=1)


def test_the_table_has_the_floors_below_the_score_and_fits_80_columns(digits_run) -> None:
    Path("run").symlink_to(digits_run)
    out = damcha("eval", "run").done().out
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[:5] == [
        "task        digits, valid split",
        "attention   damcha",
        f"run         {Path('run')}",
        "checkpoint  step-00000042",
        "device      cpu",
    ]
    rows = [line.split("  ")[0].strip() for line in lines]
    model = rows.index("damcha")
    assert rows[model : model + 5] == [
        "damcha",
        "floors:",
        "mean training picture",
        "visible mean",
        "harmonic fill",
    ]
    record = damcha("eval", digits_run, "--json").json()
    floor = record["floors"]["mean_training_picture"]["masked_mse"]["value"]
    assert lines[model + 2].split()[3] == f"{floor:.5f}"
    assert "\x1b" not in out


def test_a_classifier_has_a_table_too(classifier_run) -> None:
    out = damcha("eval", classifier_run).done().out
    assert "top1" in out
    assert "floors" not in out
    assert "nats" in out
