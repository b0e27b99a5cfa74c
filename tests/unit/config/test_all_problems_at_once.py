"""P45 and P46: everything that is wrong with a run file is said, in one go."""

from __future__ import annotations

from pathlib import Path

import pytest

from damcha_core.config.resolve import resolve
from damcha_core.errors import ConfigError

BROKEN = """
lr = 3
[run]
seed = -1
device = "gpu"
[train]
learing_rate = 1e-4
lr = nan
epochs = 1.5
batch_size = true
num-epochs = 3
weight_decay = "0.1"
clip_norm = inf
[model]
d_model = 30
n_heads = 4
dropout = 1.5
lr = 1
patch_size = 3
[attention]
name = "mha"
structure = "psd"
[trian]
x = 1
"""


def problems(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "run file.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        resolve(path)
    assert caught.value.exit_code == 2
    assert str(caught.value).split("\n") == list(caught.value.problems)
    for line in caught.value.problems:
        assert line.startswith(f"{path}: ")
        assert line.isprintable()
    return [line.removeprefix(f"{path}: ") for line in caught.value.problems]


def test_every_problem_is_reported_once_with_value_and_range(tmp_path):
    found = problems(tmp_path, BROKEN)
    expected = [
        "lr stands outside the sections; it belongs under [train]",
        "run.seed = -1 is refused: give a whole number from 0 to 9223372036854775807",
        'run.device = "gpu" is refused: give "auto", "cpu", "cuda", "cuda:N" (N counts from 0) '
        'or "mps"',
        "there is no key train.learing_rate; did you mean train.lr?",
        "train.lr = nan is refused: give a number above 0, at most 10",
        "train.epochs = 1.5 is refused: give a whole number from 1 to 1000000",
        "train.batch_size = true is refused: give a whole number from 1 to 1000000",
        "there is no key train.num-epochs; did you mean train.epochs?",
        'train.weight_decay = "0.1" is refused: give a number from 0 to 10, without quotes',
        "train.clip_norm = inf is refused: give a number from 0 to 1000000",
        "model.d_model = 30 cannot be split into model.n_heads = 4 heads of equal width: give a "
        "multiple, such as 28 or 32",
        "model.dropout = 1.5 is refused: give a number from 0 to below 1",
        "model.lr is in the wrong section; lr belongs to [train]: write train.lr",
        "data.image_size = 8 cannot be cut into patches of model.patch_size = 3: give a divisor "
        "of 8, such as 2",
        "attention.structure belongs to attention damcha, not to mha: leave it out, or choose "
        'attention.name = "damcha"',
        "there is no section [trian]; did you mean [train]? known: [run], [model], [attention], "
        "[data], [train], [eval]",
    ]
    assert sorted(found) == sorted(expected)


def test_a_file_that_does_not_parse_reports_that_alone(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(BROKEN + "\nx = \n")
    with pytest.raises(ConfigError) as caught:
        resolve(path, ["train.epochs=0"], {"train.lr": -1})
    (line,) = caught.value.problems
    assert line.startswith(f"{path}, line {BROKEN.count(chr(10)) + 2}: this is not TOML")


def test_a_refused_value_is_no_ground_for_a_second_complaint(tmp_path):
    """d_model falls back to its default for the other checks, which must not blame it."""
    assert problems(tmp_path, "[model]\nd_model = -5\nn_heads = 7\n") == [
        "model.d_model = -5 is refused: give a whole number from 1 to 65536"
    ]


def test_an_unknown_task_still_has_the_rest_checked(tmp_path):
    found = problems(tmp_path, '[run]\ntask = "digit"\n[train]\nlr = 0\n[model]\nn_heads = 3\n')
    assert found[0].startswith('run.task = "digit" is unknown; did you mean digits? known: digits')
    assert "train.lr = 0 is refused" in found[1]
    assert "model.d_model = 64 cannot be split" in found[2]
    assert len(found) == 3


@pytest.mark.parametrize("value", ["3", "true", "[]", "1979-05-27"])
def test_a_task_or_attention_that_is_no_text(tmp_path, value):
    found = problems(tmp_path, f"[run]\ntask = {value}\n[attention]\nname = {value}\n")
    assert found == [
        f"run.task = {value} is refused: give text in quotes",
        f"attention.name = {value} is refused: give text in quotes",
    ]


def test_a_windows_path_that_turned_into_a_tab(tmp_path):
    (line,) = problems(tmp_path, '[data]\nroot = "C:\\temp"\n')
    assert line.startswith("data.root = ")
    assert "write a Windows path between single quotes" in line
