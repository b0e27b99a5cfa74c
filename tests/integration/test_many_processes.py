"""A run of several processes is the run of one: same losses, same weights, same files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from process_groups import (
    SECONDS,
    differences,
    joined,
    outputs,
    resume_in_ranks,
    start_command,
    start_ranks,
    torchrun,
    train_in_ranks,
    train_in_world,
)
from tiny_runs import Recorder, fingerprint, go_on, last_folder, metrics, tiny_config, train
from tiny_texts import text_config, write_wmt

from damcha_core.config.document import to_toml
from damcha_core.config.resolve import resolve
from damcha_core.config.schema import RunConfig
from damcha_core.train.checkpoint import read_checkpoint
from damcha_core.train.process_group import ManyProcesses
from damcha_core.train.run import start
from damcha_core.train.run_folder import RunFolder
from damcha_core.train.world import World

STEPS = 50
DIGITS: dict[str, object] = {
    "run.task": "digits",
    "run.seed": 5,
    "run.device": "cpu",
    "run.threads": 1,
    "model.d_model": 16,
    "model.n_heads": 2,
    "model.d_ff": 24,
    "model.n_layers": 2,
    "model.dropout": 0.0,
    "train.epochs": 9,
    "train.max_steps": STEPS,
    # Eleven pictures of one process and ten of the other, and an epoch that ends with 16 of 21.
    "train.batch_size": 21,
    "train.accumulate": 2,
    "train.ema_decay": 0.9,
    "train.lr": 1e-2,
    "train.warmup_steps": 4,
    "eval.batch_size": 125,
}
TEXTS: dict[str, object] = {
    "run.threads": 1,
    "model.dropout": 0.0,
    "train.epochs": 99,
    "train.max_steps": STEPS,
    "train.accumulate": 3,
    "train.ema_decay": 0.9,
    "eval.beam": 1,
    "eval.max_new_tokens": 4,
}
# Far from plain attention, so that the generator learns and rounding is not magnified.
DAMCHA: dict[str, object] = {"attention.init": "random", "attention.mlp_hidden": [8]}

SPREAD: dict[str, object] = {"model.dropout": 0.0, "train.precision": "float64"}
"""Changes of a tiny run whose weights may not depend on the number of processes."""


def digits_config(out: Path, attention: str, **changes: object) -> RunConfig:
    own = DAMCHA if attention == "damcha" else {}
    places: dict[str, object] = {"run.out": str(out), "attention.name": attention}
    return resolve(None, [], {**DIGITS, **own, **places, **changes})


def texts_config(root: Path, out: Path, attention: str, **changes: object) -> RunConfig:
    own = DAMCHA if attention == "damcha" else {}
    return text_config(root, out, **{**TEXTS, **own, "attention.name": attention, **changes})


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of texts of one to five words."""
    folder = tmp_path_factory.mktemp("texts")
    write_wmt(folder, n_train=700, n_valid=5, n_test=5)
    return folder


@pytest.mark.slow
def test_torchrun_with_two_processes_gives_the_losses_of_one(tmp_path):
    """float32: what rounds differently stays below 1e-6 after 50 steps."""
    config = digits_config(tmp_path / "two", "damcha")
    file = tmp_path / "run.toml"
    file.write_text(to_toml(config), encoding="utf-8")
    launched = torchrun("train", "--config", str(file), "--json")
    start(digits_config(tmp_path / "one", "damcha"), Recorder())
    stdout, stderr = launched.communicate(timeout=SECONDS)
    assert launched.returncode == 0, stderr
    gaps = differences(tmp_path / "one", tmp_path / "two")
    assert gaps["loss"] <= 1e-6
    assert gaps["weights"] <= 1e-5
    assert len(metrics(tmp_path / "two")) == STEPS + 2
    require_files_of_one_run(tmp_path / "one", tmp_path / "two")
    require_told_once(stdout, stderr, tmp_path / "two")


def require_files_of_one_run(one: Path, two: Path) -> None:
    """Rank 0 alone wrote, and wrote what one process writes."""
    files = [sorted(str(p.relative_to(run)) for p in run.rglob("*")) for run in (one, two)]
    assert files[0] == files[1]
    [begun] = json.loads((two / "environment.json").read_text(encoding="utf-8"))["starts"]
    assert begun["processes"] == 2
    assert read_checkpoint(last_folder(two)).world_size == 2
    weights, others = (read_checkpoint(last_folder(run)).weights for run in (one, two))
    assert weights.keys() == others.keys()
    states = [read_checkpoint(last_folder(run)).state["position"] for run in (one, two)]
    for state in states:
        del state["best"]["value"], state["best"]["loss"]
    assert states[0] == states[1]


def require_told_once(stdout: str, stderr: str, run: Path) -> None:
    assert json.loads(stdout) == json.loads((run / "result.json").read_text(encoding="utf-8"))
    [begun] = [line for line in stderr.splitlines() if line.startswith("training damcha")]
    assert "2 processes" in begun
    assert len([line for line in stderr.splitlines() if line.startswith("epoch ")]) == 2
    assert "Warning" not in stderr
    assert "Traceback" not in stderr


@pytest.mark.slow
@pytest.mark.parametrize("task", ["digits", "texts"])
@pytest.mark.parametrize("attention", ["mha", "damcha"])
def test_in_float64_two_processes_end_with_the_weights_of_one(
    child, tmp_path, texts, task, attention
):
    def config(out: Path) -> RunConfig:
        precise = {"train.precision": "float64"}
        if task == "digits":
            return digits_config(out, attention, **precise)
        return texts_config(texts, out, attention, **precise)

    processes = start_ranks(child, 2, train_in_world, config(tmp_path / "two"))
    start(config(tmp_path / "one"), Recorder())
    assert joined(processes) == [0, 0]
    gaps = differences(tmp_path / "one", tmp_path / "two")
    assert max(gaps.values()) <= 1e-12, gaps
    assert len(metrics(tmp_path / "two")) > STEPS


def count_alone(world: ManyProcesses, *values: float) -> Callable[[], list[float]]:
    """Each process divides by its own items, as if all had as many."""
    items, *others = values
    added = ManyProcesses._sums_later(world, *others)
    return lambda: [items * world.size, *added()]


def keep_the_mean(world: ManyProcesses, *values: float) -> Callable[[], list[float]]:
    """The mean of the gradients is taken for their sum."""
    items, *others = ManyProcesses._sums_later(world, *values)()
    return lambda: [items * world.size, *others]


def count_stand_ins(world: ManyProcesses, *values: float) -> Callable[[], list[float]]:
    """Nothing is counted wrong; stand-ins count in the loss (see train_broken)."""
    return ManyProcesses._sums_later(world, *values)


BREAKS: Mapping[str, Callable[..., Callable[[], list[float]]]] = {
    "count alone": count_alone,
    "keep the mean": keep_the_mean,
    "count stand-ins": count_stand_ins,
}


def train_broken(how: str, config: RunConfig) -> None:
    ManyProcesses.sums_later = BREAKS[how]  # type: ignore[method-assign]
    if how == "count stand-ins":
        import damcha_core.train.learner as module

        module.StandIn = type(None)  # type: ignore[misc]
    train_in_world(config)


@pytest.mark.slow
@pytest.mark.parametrize("how", list(BREAKS))
def test_control_a_wrong_way_to_average_is_seen(child, tmp_path, how):
    changes = {**SPREAD, "train.max_steps": 7}
    if how == "count stand-ins":
        changes |= {"train.batch_size": 1, "train.epochs": 1}
    train(tmp_path / "one", **changes)
    config = tiny_config(tmp_path / "two", **changes)
    assert joined(start_ranks(child, 2, train_broken, how, config)) == [0, 0]
    try:
        gaps = differences(tmp_path / "one", tmp_path / "two")
    except AssertionError:
        return  # not even the sizes are those of one process
    assert max(gaps.values()) > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(("n", "batch_size"), [(3, 2), (2, 1), (3, 7)])
def test_a_process_without_samples_takes_part(child, tmp_path, n, batch_size):
    """45 pictures: the last micro-batch has one, or three; with accumulation 2 some are empty."""
    changes = {**SPREAD, "train.batch_size": batch_size, "train.accumulate": 2, "train.epochs": 1}
    train(tmp_path / "one", **changes)
    train_in_ranks(child, n, tiny_config(tmp_path / "many", **changes))
    gaps = differences(tmp_path / "one", tmp_path / "many")
    assert max(gaps.values()) <= 1e-12, gaps


@pytest.mark.slow
def test_another_number_of_processes_goes_on_with_the_run(child, tmp_path):
    """1, then 2, then 1 again, an epoch each."""
    train(tmp_path / "one", **SPREAD)
    mixed = tmp_path / "mixed"
    train(mixed, **SPREAD, **{"train.stop_after_epochs": 1})
    resume_in_ranks(child, 2, mixed, **{"train.stop_after_epochs": 2})
    assert read_checkpoint(last_folder(mixed)).world_size == 2
    watcher = Recorder()
    assert go_on(mixed, watcher, **{"train.stop_after_epochs": 0}).ended == "epochs"
    assert any("had 2 processes, now 1 process" in notice for notice in watcher.notices)
    gaps = differences(tmp_path / "one", mixed)
    assert max(gaps.values()) <= 1e-12, gaps
    sizes = [s["processes"] for s in json.loads((mixed / "environment.json").read_text())["starts"]]
    assert sizes == [1, 2, 1]


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 3])
def test_a_resumed_run_of_several_processes_has_the_bits_of_an_unbroken_one(child, tmp_path, n):
    """float32, dropout and all; three summands have an order that must stay."""
    changes: dict[str, object] = {"train.save_every_steps": 4, "train.keep_last": 9}
    train_in_ranks(child, n, tiny_config(tmp_path / "whole", **changes))
    pauses = {**changes, "train.stop_after_epochs": 1}
    train_in_ranks(child, n, tiny_config(tmp_path / "run", **pauses))
    # From the middle of the epoch, not from its end.
    checkpoints = tmp_path / "run" / "checkpoints"
    (checkpoints / "last").write_text("step-00000004\n", encoding="utf-8")
    resume_in_ranks(child, n, tmp_path / "run", **{"train.stop_after_epochs": 0})
    assert fingerprint(tmp_path / "run") == fingerprint(tmp_path / "whole")


def test_control_dropout_is_drawn_by_each_process_for_itself(child, tmp_path):
    train(tmp_path / "one", **{"train.max_steps": 2})
    train_in_ranks(child, 2, tiny_config(tmp_path / "two", **{"train.max_steps": 2}))
    assert differences(tmp_path / "one", tmp_path / "two")["loss"] > 1e-4


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--lr", "-1", "--epochs", "0"], 2, "train.lr"),
        (["--task", "cifar10", "--set", "data.root=nowhere"], 3, "nowhere"),
        (["--dry-run"], 2, "--dry-run makes the steps of one process"),
        (["--device", "cuda:0"], 2, "--device cuda:0"),
        (["--resume", "nowhere"], 4, "nowhere: not a run folder"),
    ],
)
def test_what_all_processes_meet_is_said_once(child, tmp_path, arguments, code, message):
    assert joined(start_command(child, 2, tmp_path, "train", *arguments)) == [code, code]
    first, second = outputs(tmp_path, 2)
    assert message in first
    assert "Traceback" not in first
    assert all(line.startswith("error: ") for line in first.splitlines()[:1])
    assert second == ""


def test_a_taken_folder_and_the_next_free_name_are_one_for_all(child, tmp_path, monkeypatch):
    file = tmp_path / "run.toml"
    config = tiny_config(tmp_path / "run", **{"train.max_steps": 1})
    file.write_text(to_toml(config), encoding="utf-8")
    command = ("train", "--config", str(file))
    assert joined(start_command(child, 2, tmp_path, *command)) == [0, 0]
    assert RunFolder(tmp_path / "run").checkpoints.names() == ["step-00000001"]
    assert joined(start_command(child, 2, tmp_path, *command)) == [2, 2]
    first, second = outputs(tmp_path, 2)
    assert "already holds a run" in first
    assert second == ""


def train_with_own_seed(config: RunConfig) -> None:
    """The second process is given another learning rate."""
    from damcha_core.config.change import with_values
    from damcha_core.train.world import joined_world

    world: World = joined_world()
    world.close = lambda *, failed: None  # type: ignore[method-assign]
    if not world.leads:
        config = with_values(config, {"train.lr": 0.5})
    from damcha_core.errors import UsageError

    with pytest.raises(UsageError, match="process 1 of this run has other settings"):
        start(config, Recorder(), world)


def test_processes_with_other_settings_are_refused(child, tmp_path):
    config = tiny_config(tmp_path / "run")
    assert joined(start_ranks(child, 2, train_with_own_seed, config)) == [0, 0]
    assert not (tmp_path / "run").exists()
