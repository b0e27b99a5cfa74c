"""Settings from several places: what beats what, and what is said about each place."""

from __future__ import annotations

from pathlib import Path

import pytest

from damcha_core.config.resolve import resolve, resolve_mapping
from damcha_core.errors import ConfigError


def run_file(tmp_path, text):
    path = tmp_path / "a.toml"
    path.write_text(text)
    return path


def problems(*arguments, **keywords):
    with pytest.raises(ConfigError) as caught:
        resolve(*arguments, **keywords)
    return list(caught.value.problems)


def test_the_file_wins_over_the_recipe_and_a_flag_over_the_file(tmp_path):
    """P04: also when the flag repeats the built-in default, which is still a value given."""
    path = run_file(tmp_path, "[train]\nepochs = 3\n")
    default = resolve().train.epochs
    assert resolve(path).train.epochs == 3
    assert resolve(path, flags={"train.epochs": 1}).train.epochs == 1
    assert resolve(path, flags={"train.epochs": default}).train.epochs == default
    assert resolve(path, flags={"train.epochs": None}).train.epochs == 3
    assert resolve(path, flags={}).train.epochs == 3


def test_set_beats_the_file_and_a_flag_beats_set(tmp_path):
    path = run_file(tmp_path, "[train]\nepochs = 3\nlr = 0.5\n")
    config = resolve(path, ["train.epochs=4", "train.lr=0.25"], {"train.epochs": 5})
    assert (config.train.epochs, config.train.lr) == (5, 0.25)
    assert resolve(path, ["train.epochs=4", "train.epochs=6"]).train.epochs == 6


def test_the_recipe_is_that_of_the_task_that_wins(tmp_path):
    path = run_file(tmp_path, '[run]\ntask = "digits"\n')
    assert resolve(path).model.d_model == 64
    assert resolve(path, ["run.task=cifar10"]).model.d_model == 128
    assert resolve(path, ["run.task=cifar10"], {"run.task": "digits"}).model.d_model == 64


@pytest.mark.parametrize(
    ("argument", "section", "key", "value"),
    [
        ("train.lr=1e-4", "train", "lr", 1e-4),
        ("train.lr = 1", "train", "lr", 1.0),
        ("train.compile=true", "train", "compile", True),
        ("run.out=a b/c=d", "run", "out", "a b/c=d"),
        ("run.out='C:\\temp'", "run", "out", "C:\\temp"),
        ("run.out=C:\\temp", "run", "out", "C:\\temp"),
        ('run.name="first"', "run", "name", "first"),
        ("run.name=first", "run", "name", "first"),
        ("run.name=007", "run", "name", "007"),
        ("run.name=5", "run", "name", "5"),
        ("run.name=true", "run", "name", "true"),
        ("run.name=2024-01-01", "run", "name", "2024-01-01"),
        ("run.name=", "run", "name", ""),
        ("train.precision=bfloat16", "train", "precision", "bfloat16"),
    ],
)
def test_set_takes_toml_or_bare_text(argument, section, key, value):
    got = getattr(getattr(resolve(None, [argument]), section), key)
    assert got == value
    assert type(got) is type(value)


def test_set_takes_lists():
    assert resolve(None, ["attention.mlp_hidden=[64, 32]"]).attention.options.mlp_hidden == (64, 32)


@pytest.mark.parametrize(
    "argument", ["", "train.lr", "lr=1", "=1", ".=1", "train.=1", ".lr=1", "train.a.b=1", "train"]
)
def test_a_malformed_set_shows_how_it_is_written(argument):
    (line,) = problems(None, [argument])
    assert line.startswith("--set ")
    assert line.endswith("such as --set train.lr=1e-3")


@pytest.mark.parametrize(
    ("argument", "part"),
    [
        ("train.lr=abc", 'train.lr = "abc" is refused: give a number above 0, at most 10'),
        ("train.lr='1'", 'train.lr = "1" is refused'),
        ("train.lr=", 'train.lr = "" is refused'),
        ("train.lr=nan", "train.lr = nan is refused"),
        ("train.epochs=1.5", "train.epochs = 1.5 is refused: give a whole number from 1"),
        ("train.compile=True", 'train.compile = "True" is refused: give true or false'),
        ("train.epochs=1\ntrain.lr=2", "train.epochs = "),
        ("train.learning_rate=1", "there is no key train.learning_rate; did you mean train.lr?"),
        ("trian.lr=1", "there is no section [trian]; did you mean [train]?"),
        ("run.name=a\x00b", "without control characters"),
        ("run.out=\udcff", "text in UTF-8"),
        ("train.lr=" + "9" * 5000, "train.lr = "),
        ("train.lr=" + "[" * 5000, "train.lr = "),
    ],
)
def test_a_bad_set_is_named(argument, part):
    (line,) = problems(None, [argument])
    assert line.startswith("--set: ")
    assert part in line
    assert line.isprintable()


def test_flags_take_paths_and_are_named_as_flags():
    assert resolve(flags={"run.out": Path("a/b")}).run.out == "a/b"
    lines = problems(flags={"train.batch_size": 0, "attention.name": "mah", "run.task": "digit"})
    assert len(lines) == 3
    assert any(line.startswith("--batch-size: train.batch_size = 0 is refused") for line in lines)
    assert any(line.startswith("--attention: attention.name") for line in lines)
    assert any(line.startswith("--task: run.task") for line in lines)
    assert problems(flags={"train.learning_rate": 1})[0].startswith("--learning-rate: ")
    assert problems(flags={"nothing": 1})[0].startswith("--")


def test_the_data_variable_replaces_the_default_alone(tmp_path, monkeypatch):
    path = run_file(tmp_path, '[data]\nroot = "from-file"\n')
    monkeypatch.delenv("DAMCHA_DATA", raising=False)
    assert resolve().data.root == "./data"
    monkeypatch.setenv("DAMCHA_DATA", "from-variable")
    assert resolve().data.root == "from-variable"
    assert resolve(path).data.root == "from-file"
    assert resolve(None, ["data.root=from-set"]).data.root == "from-set"
    assert resolve(flags={"data.root": "from-flag"}).data.root == "from-flag"
    monkeypatch.setenv("DAMCHA_DATA", "")
    assert resolve().data.root == "./data"
    monkeypatch.setenv("DAMCHA_DATA", "a\x01b")
    assert problems()[0].startswith("environment variable DAMCHA_DATA: data.root")


def test_name_and_out_given_later_clear_each_other(tmp_path):
    path = run_file(tmp_path, '[run]\nout = "there"\n')
    config = resolve(path, flags={"run.name": "first"})
    assert (config.run.name, config.run.out) == ("first", "")
    path = run_file(tmp_path, '[run]\nname = "first"\n')
    config = resolve(path, ["run.out=there"])
    assert (config.run.name, config.run.out) == ("", "there")


def test_a_conflict_names_every_place_that_has_a_part_in_it(tmp_path):
    path = run_file(tmp_path, "[model]\nd_model = 30\n")
    (line,) = problems(path, ["model.n_heads=4"])
    assert line.startswith(f"{path}, --set: model.d_model = 30 cannot be split")


@pytest.mark.parametrize("section", ["train = 3", 'train = "x"', "[[train]]\nlr = 1"])
def test_a_section_that_is_no_table(tmp_path, section):
    path = run_file(tmp_path, section + "\n")
    (line,) = problems(path)
    assert line.startswith(f"{path}: train = ")
    assert "train is a section" in line


def test_very_many_unknown_names_are_counted_and_not_all_listed(tmp_path):
    path = run_file(tmp_path, "[train]\n" + "".join(f"q{i} = 1\n" for i in range(1000)))
    lines = problems(path)
    assert len(lines) == 51
    assert lines[-1] == f"{path}: and 950 more unknown names"


def test_plain_mappings_resolve_over_the_recipe():
    assert resolve_mapping({"train": {"lr": 0.5}}).model.d_model == 64
    with pytest.raises(ConfigError, match=r"^here: train\.lr"):
        resolve_mapping({"train": {"lr": 0}}, origin="here")
