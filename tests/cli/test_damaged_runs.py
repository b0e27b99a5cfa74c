"""A run that is not there, not whole or not readable: a line that names the file, exit code 4."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command_line import damcha
from PIL import Image
from tiny_runs import last_folder, rewrite

from damcha_core.train.checkpoint import read_checkpoint

COMMANDS = pytest.mark.parametrize("command", ["eval", "reconstruct"])


@pytest.mark.parametrize(
    "command", [("eval",), ("reconstruct",), ("train", "--resume")], ids=" ".join
)
def test_a_path_without_a_run_is_named(command) -> None:
    Path("empty").mkdir()
    Path("file").write_text("hello", encoding="utf-8")
    damcha(*command, "nowhere").refused(4, "nowhere", "no such folder", most_lines=1)
    for path in ("empty", "file"):
        damcha(*command, path).refused(4, path, "no run.toml in it", most_lines=1)
    assert list(Path("empty").iterdir()) == []


def empty(path: Path) -> None:
    path.write_bytes(b"")


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def picture(path: Path) -> None:
    Image.new("RGB", (9, 9), "red").save(path, format="PNG")


@COMMANDS
@pytest.mark.parametrize("hurt", [empty, half, picture, Path.unlink])
@pytest.mark.parametrize("name", ["weights.safetensors", "manifest.json"])
def test_a_damaged_checkpoint_is_named_with_a_good_one(command, hurt, name, own_run) -> None:
    file = last_folder(own_run) / name
    hurt(file)
    damcha(command, own_run).refused(4, str(file), "--checkpoint step-00000021")
    damcha(command, own_run, "--checkpoint", 21).done()


def test_the_last_good_checkpoint_is_not_offered_where_there_is_none(own_run) -> None:
    shutil.rmtree(own_run / "checkpoints" / "step-00000021")
    half(last_folder(own_run) / "weights.safetensors")
    damcha("eval", own_run).refused(4, "weights.safetensors", most_lines=1)


@COMMANDS
@pytest.mark.parametrize("content", ["", "elsewhere\n", "../../x\n", "step-00000099\n"])
def test_a_pointer_that_leads_nowhere_is_named(command, content, own_run) -> None:
    (own_run / "checkpoints" / "best").write_text(content, encoding="utf-8")
    damcha(command, own_run).refused(4, str(own_run / "checkpoints"), "--checkpoint")


@COMMANDS
def test_a_run_without_any_checkpoint_says_so(command, own_run) -> None:
    shutil.rmtree(own_run / "checkpoints")
    damcha(command, own_run).refused(4, str(own_run / "checkpoints" / "best"), most_lines=1)


@COMMANDS
@pytest.mark.parametrize("schema", [2, 10**6])
def test_a_newer_checkpoint_asks_for_a_newer_program(command, schema, own_run) -> None:
    file = last_folder(own_run) / "manifest.json"
    file.write_text(json.dumps({"schema": schema, "new": "things"}), encoding="utf-8")
    damcha(command, own_run).refused(4, str(file), "newer damcha", "update damcha")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text + "x = [\n", ("not TOML", "line ")),
        (lambda text: text.replace("d_model", "d_modle"), ("model.d_modle", "model.d_model")),
        (lambda text: text.replace("n_heads = 2", 'n_heads = "2"'), ("model.n_heads",)),
        (lambda _text: "\0", ("line 1",)),
    ],
    ids=["syntax", "key", "type", "binary"],
)
def test_a_damaged_run_file_in_a_run_is_named(change, words, own_run) -> None:
    file = own_run / "run.toml"
    file.write_text(change(file.read_text(encoding="utf-8")), encoding="utf-8")
    damcha("eval", own_run).refused(2, str(file), *words, most_lines=1)


def test_a_run_file_of_another_model_is_told_apart(own_run) -> None:
    file = own_run / "run.toml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("d_ff = 16", "d_ff = 24"), encoding="utf-8")
    damcha("eval", own_run).refused(4, str(last_folder(own_run)), "other settings")


def test_weights_that_do_not_fit_are_named(own_run) -> None:
    checkpoint = last_folder(own_run)
    weights = dict(read_checkpoint(checkpoint).weights)
    del weights["mask_token"]
    rewrite(checkpoint, weights=weights)
    damcha("eval", own_run).refused(4, str(checkpoint), "mask_token", most_lines=1)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"channels": 1}', "\xff"])
def test_damaged_facts_are_named(content, own_run) -> None:
    (own_run / "facts.json").write_bytes(content.encode("latin-1"))
    damcha("eval", own_run).refused(4, str(own_run / "facts.json"), most_lines=1)


@pytest.mark.parametrize("hurt", [empty, half, picture, Path.unlink])
def test_a_damaged_mean_picture_is_named(hurt, own_run) -> None:
    file = own_run / "mean_picture.safetensors"
    hurt(file)
    damcha("reconstruct", own_run).refused(4, str(file), most_lines=1)
    damcha("eval", own_run).done()


def test_a_mean_picture_of_another_size_is_refused(own_run) -> None:
    import torch
    from safetensors.torch import save_file

    file = own_run / "mean_picture.safetensors"
    for wrong in (torch.zeros(3, 8, 8, dtype=torch.float64), torch.zeros(1, 8, 8)):
        save_file({"mean_picture": wrong}, file)
        damcha("reconstruct", own_run).refused(4, str(file), most_lines=1)


def test_a_classification_run_is_not_reconstructed(classifier_run) -> None:
    before = sorted(classifier_run.rglob("*"))
    damcha("reconstruct", classifier_run).refused(4, "digits-cls", "digits, cifar10", most_lines=1)
    assert sorted(classifier_run.rglob("*")) == before
