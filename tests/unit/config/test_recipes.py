"""The shipped settings of each task."""

from __future__ import annotations

from importlib.resources import files

import pytest

from damcha_core.catalog.run_attentions import attention_names
from damcha_core.catalog.tasks import task_rows
from damcha_core.config.consistency import training_problems
from damcha_core.config.keys import dotted_keys
from damcha_core.config.resolve import recipe, resolve

TASKS = [row.name for row in task_rows()]


@pytest.mark.parametrize("task", TASKS)
def test_a_recipe_is_short_commented_and_complete(task):
    text = (files("damcha_core.config") / "recipes" / f"{task}.toml").read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert len(text.splitlines()) <= 60
    assert all(len(line) <= 100 for line in text.splitlines())
    keys = {f"{section}.{key}" for section, table in recipe(task).items() for key in table}
    assert keys <= set(dotted_keys())
    others = {key for key in keys if key.startswith(("attention.", "run.", "eval."))}
    assert others <= {"run.threads"}  # small pictures are slower on several threads


def test_there_is_a_recipe_for_each_task_and_no_other_file():
    names = {entry.name for entry in (files("damcha_core.config") / "recipes").iterdir()}
    assert {name for name in names if name.endswith(".toml")} == {f"{task}.toml" for task in TASKS}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("attention", attention_names())
def test_every_task_resolves_with_every_attention(task, attention):
    config = resolve(flags={"run.task": task, "attention.name": attention})
    assert training_problems(config) == []
    assert config.attention.name == attention
    for section, table in recipe(task).items():
        for key, value in table.items():
            assert getattr(getattr(config, section), key) == value


def test_a_task_without_a_recipe_has_the_defaults():
    assert recipe("none") == {}


def test_sizes_of_the_shipped_tasks():
    digits = resolve(flags={"run.task": "digits"})
    assert (digits.model.d_model, digits.model.n_heads, digits.model.n_layers) == (64, 8, 4)
    assert (digits.data.image_size, digits.model.patch_size, digits.data.mask_ratio) == (8, 2, 0.5)
    cifar = resolve(flags={"run.task": "cifar10"})
    assert (cifar.model.d_model, cifar.model.d_ff, cifar.model.n_layers) == (128, 256, 4)
    assert (cifar.data.image_size, cifar.model.patch_size, cifar.data.mask_ratio) == (32, 4, 0.75)
