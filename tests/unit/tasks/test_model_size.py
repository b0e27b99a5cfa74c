"""Parameters and multiply-adds of whole models, from settings alone, against the built ones."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from damcha_core.catalog.attentions import attention_rows
from damcha_core.catalog.controls import control_rows
from damcha_core.config.controls import as_built, as_target
from damcha_core.config.model_size import mean_tokens, model_multiply_adds, model_parameters
from damcha_core.config.resolve import resolve_mapping
from damcha_core.config.schema import RunConfig
from damcha_core.profiling.operations import counted_operations
from damcha_core.tasks.build import build_task
from damcha_core.tasks.image_task import ImageFacts

ROWS = [row.name for row in attention_rows()]
CONTROLS = [row.name for row in control_rows()]
TASKS = ["images", "images-cls"]
CHANNELS, CLASSES, SIDE = 3, 7, 12
SMALL = {"d_model": 24, "n_heads": 4, "d_ff": 20, "n_layers": 2, "patch_size": 3}
BOTH = pytest.mark.parametrize("is_causal", [False, True])


def settings(name: str, task: str, is_causal: bool, **model: int) -> RunConfig:
    attention: dict[str, object] = {"name": name}
    if name.startswith("damcha") and "static" not in name:
        attention["mlp_hidden"] = [5, 9]
    return resolve_mapping(
        {
            "run": {"task": task},
            "model": {**SMALL, "causal": is_causal, **model},
            "attention": attention,
            "data": {"image_size": SIDE},
        }
    )


def built(config: RunConfig) -> nn.Module:
    facts = ImageFacts(CHANNELS, config.data.image_size, tuple(map(str, range(CLASSES))))
    return build_task(config, facts).build_model().eval()


def counted(config: RunConfig) -> tuple[int, int]:
    """Parameters and forward multiply-adds of the built model."""
    model, n_tokens = built(config), mean_tokens(config)
    images = torch.rand(1, CHANNELS, config.data.image_size, config.data.image_size)
    hidden = torch.arange(n_tokens)[None] % 2 == 0
    inputs = (images,) if config.run.task.endswith("cls") else (images, hidden)
    with torch.no_grad():
        operations = counted_operations(lambda: model(*inputs))
    return sum(p.numel() for p in model.parameters()), operations // 2


def stated(config: RunConfig) -> tuple[int, int]:
    facts = {"channels": CHANNELS, "n_classes": CLASSES}
    return model_parameters(config, **facts), model_multiply_adds(config, **facts)


@BOTH
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", ROWS)
def test_every_row_in_every_kind_of_task(name: str, task: str, is_causal: bool) -> None:
    config = settings(name, task, is_causal)
    (parameters, multiply_adds), (own, products) = stated(config), counted(config)
    assert parameters == own
    if name == "damcha-geometric" and is_causal:  # grouped products carry zeros along
        assert multiply_adds <= products <= 1.05 * multiply_adds
    else:
        assert multiply_adds == products


@BOTH
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_builds_what_its_settings_say(name: str, task: str, is_causal: bool) -> None:
    config = settings(name, task, is_causal, d_model=16)
    assert counted(config) == stated(as_built(config))


@BOTH
@pytest.mark.parametrize("d_model", [64, 128, 256])
@pytest.mark.parametrize("task", ["digits", "cifar10-cls"])
def test_the_built_models_match(task: str, d_model: int, is_causal: bool) -> None:
    """mha-matched within 1 % of the parameters of damcha, by the tensors of both models."""
    run = {"task": task}
    model = {"d_model": d_model, "causal": is_causal}
    sizes = []
    for name in ("mha-matched", "damcha"):
        config = resolve_mapping({"run": run, "model": model, "attention": {"name": name}})
        with torch.device("meta"):
            sizes.append(sum(p.numel() for p in built(config).parameters()))
    assert abs(sizes[0] / sizes[1] - 1) < 0.01
    assert sizes[1] == model_parameters(config, channels=CHANNELS, n_classes=CLASSES)


@BOTH
@pytest.mark.parametrize("d_model", [64, 128, 256])
def test_the_built_models_cost_the_same(d_model: int, is_causal: bool) -> None:
    """mha-flops within 3 % of the multiply-adds of damcha, as torch counts them in both models."""
    model = {"d_model": d_model, "causal": is_causal}
    costs = []
    for name in ("mha-flops", "damcha"):
        config = resolve_mapping(
            {"run": {"task": "digits"}, "model": model, "attention": {"name": name}}
        )
        costs.append(counted(config)[1])
    assert abs(costs[0] / costs[1] - 1) < 0.03


def test_the_target_of_a_control_is_the_same_file_with_damcha() -> None:
    control, other = settings("mha-matched", "images", True), settings("damcha", "images", True)
    assert as_target(control).model == other.model
    assert as_target(control).attention.name == "damcha"
