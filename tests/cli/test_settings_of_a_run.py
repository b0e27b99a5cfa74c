"""What beats what, which settings are refused, and that nothing is written before that."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import SMALL, Answer, damcha
from tiny_runs import last_folder, sha256

from damcha_core.config.resolve import config_from_run, resolve


def plan(*arguments: object) -> dict:
    """The resolved settings that a dry run states."""
    return damcha("train", "--dry-run", "--json", *SMALL, *arguments).json()["config"]


def write(text: str, name: str = "run file.toml") -> Path:
    path = Path(name)
    path.write_bytes(text.encode())
    return path


def test_no_arguments_train_damcha_on_the_digits() -> None:
    settings = damcha("train", "--dry-run", "--json").json()["config"]
    assert (settings["run"]["task"], settings["attention"]["name"]) == ("digits", "damcha")
    recipe = resolve()
    assert settings["model"]["d_model"] == recipe.model.d_model
    assert settings["train"]["epochs"] == recipe.train.epochs


@pytest.mark.parametrize(
    ("flags", "epochs"),
    [
        ((), 3),
        (("--epochs", 1), 1),
        (("--epochs", resolve().train.epochs), resolve().train.epochs),
        (("--set", "train.epochs=4"), 4),
        (("--set", "train.epochs=4", "--epochs", 5), 5),
        (("--set", "train.epochs=4", "--set", "train.epochs=6"), 6),
    ],
)
def test_a_flag_beats_set_beats_the_file_and_one_not_given_beats_nothing(flags, epochs) -> None:
    file = write("[train]\nepochs = 3\nbatch_size = 50\nlr = 3e-3\n[run]\nseed = 9\n")
    settings = plan("--config", file, *flags)
    assert settings["train"]["epochs"] == epochs
    assert settings["train"]["batch_size"] == 50
    assert settings["train"]["lr"] == 3e-3
    assert settings["run"]["seed"] == 9


@pytest.mark.parametrize(
    ("flag", "value", "section", "key"),
    [
        ("--seed", 7, "run", "seed"),
        ("--batch-size", 33, "train", "batch_size"),
        ("--lr", 0.01, "train", "lr"),
        ("--precision", "float64", "train", "precision"),
        ("--attention", "damcha-psd", "attention", "name"),
    ],
)
def test_every_flag_reaches_its_key(flag, value, section, key) -> None:
    assert plan(flag, value)[section][key] == value


def test_the_issues_bad_run_file_is_refused_all_at_once() -> None:
    file = write("[train]\nlearing_rate = 1\nlr = nan\nepochs = 1.5\n[trian]\nlr = 1\n")
    answer = damcha("train", "--config", file, "--out", "run")
    answer.refused(
        2,
        "train.learing_rate; did you mean train.lr?",
        "train.lr = nan",
        "train.epochs = 1.5",
        "[trian]; did you mean [train]?",
        most_lines=4,
    )
    assert all(line.startswith(f"error: {file}: ") for line in answer.err.splitlines())
    assert not Path("run").exists()


def test_a_key_given_twice_is_refused_with_its_line() -> None:
    file = write("[train]\nlr = 1e-3\n\nlr = 2e-3\n")
    damcha("train", "--config", file, "--out", "run").refused(2, "line 4", "train.lr", "line 2")
    assert not Path("run").exists()


def test_a_file_with_a_byte_order_mark_and_crlf_loads() -> None:
    file = write("\ufeff[train]\r\nepochs = 3\r\n")
    assert plan("--config", file)["train"]["epochs"] == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--config", "missing.toml"), ("missing.toml", "no such file")),
        (("--config", "."), ("folder",)),
        (("--set", "train.lr"), ("--set section.key=value",)),
        (("--set", "lr=1"), ("--set section.key=value",)),
        (("--set", 'train.epochs="3"'), ("train.epochs", "without quotes")),
        (("--set", "train.learning_rate=1"), ("train.lr",)),
        (("--task", "digit"), ("did you mean digits?",)),
        (("--task", "[bold]x[/]"), ('"[bold]x[/]"',)),
        (("--attention", "damhca"), ("damcha",)),
        (("--lr", "-1"), ("--lr", "above 0")),
        (("--lr", "nan"), ("--lr", "nan")),
        (("--epochs", 0), ("--epochs", "from 1")),
        (("--precision", "half"), ("--precision", '"float16"')),
        (("--name", "a/b"), ("--name", "runs/")),
        (("--set", "data.mask_ratio=0"), ("mask_ratio", "above 0")),
        (("--set", "data.mask_ratio=1.5"), ("mask_ratio", "from 0 to 1")),
        (("--set", "data.mask_ratio=nan"), ("mask_ratio", "from 0 to 1")),
        (("--resume", "x", "--config", "y"), ("--resume", "--config")),
        (("--resume", "x", "--dry-run"), ("--resume", "--dry-run")),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_a_setting_that_cannot_be_is_refused_in_one_line(arguments, words) -> None:
    damcha("train", *arguments).refused(2, *words, most_lines=1)
    assert list(Path().iterdir()) == []


def test_the_stored_run_file_is_complete_and_trains_the_same_weights_again(digits_run) -> None:
    again = damcha("train", "--config", digits_run / "run.toml", "--out", "again").done()
    assert "into again" in again.err
    weights = [sha256(last_folder(f) / "weights.safetensors") for f in (digits_run, Path("again"))]
    assert weights[0] == weights[1]
    stored, second = config_from_run(digits_run), config_from_run(Path("again"))
    assert stored.train == second.train
    assert stored.model == second.model
    assert stored.run.seed == second.run.seed == 4


def test_another_seed_trains_other_weights(digits_run) -> None:
    arguments = ("--config", digits_run / "run.toml", "--out", "again", "--seed", 5)
    damcha("train", *arguments, "--set", "train.max_steps=2").done()
    weights = [sha256(last_folder(f) / "weights.safetensors") for f in (digits_run, Path("again"))]
    assert weights[0] != weights[1]


def usage_error(*arguments: object) -> Answer:
    answer = damcha(*arguments)
    assert (answer.code, answer.out, answer.bug) == (2, "", None)
    return answer


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("train", "--epoch", 3), ("--epoch", "--epochs")),
        (("trian",), ("trian", "train")),
        (("train", "--epochs", "1.5"), ("--epochs", "integer")),
        (("eval",), ("RUN",)),
        (("eval", "a", "[bold]b[/]"), ("[bold]b[/]",)),
        (("reconstruct", "a", "--count", 0), ("--count",)),
    ],
    ids=str,
)
def test_a_mistyped_command_line_gets_a_suggestion(arguments, words) -> None:
    answer = usage_error(*arguments)
    assert "Usage: " in answer.err
    for word in words:
        assert word in answer.err.splitlines()[-1]
