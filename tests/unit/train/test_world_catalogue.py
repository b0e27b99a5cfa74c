"""Every attention learns the same in two processes as in one, and no parameter is left out.

DistributedDataParallel is told that every parameter has a gradient after every pass; it refuses
the next pass where that is not so.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from process_groups import joined, start_ranks
from safetensors.torch import load_file, save_file
from tiny_runs import SETTINGS as PICTURES
from tiny_texts import SETTINGS as TEXTS
from tiny_texts import write_wmt

from damcha_core.catalog.attentions import attention_row, attention_rows
from damcha_core.catalog.loading import load
from damcha_core.config.resolve import resolve
from damcha_core.config.schema import RunConfig
from damcha_core.tasks.build import build_task
from damcha_core.tasks.task import Batch, Task, move_batch
from damcha_core.train.learner import Learner
from damcha_core.train.run import build_learner
from damcha_core.train.shares import Shares, StandIn
from damcha_core.train.world import World, joined_world

CPU = torch.device("cpu")
ATTENTIONS = [row.name for row in attention_rows()]
TASKS = ("digits", "wmt")
STEPS = 3
ACCUMULATE = 2
LOSS_TOLERANCE, WEIGHT_TOLERANCE = 1e-12, 1e-9
"""Relative. Some biases of keys have gradients that are rounding alone, and AdamW makes steps of
its own of that; other weights stay below 1e-12."""


def config_of(task: str, attention: str, root: Path) -> RunConfig:
    own: dict[str, object] = {
        "run.task": task,
        "attention.name": attention,
        "data.root": str(root),
        "model.dropout": 0.0,
        "train.precision": "float64",
        "train.horizon_steps": STEPS,
        # Three texts, or three pictures, a micro-batch: two for one process and one for the other.
        "train.batch_size": 3,
    }
    base = TEXTS if task == "wmt" else PICTURES
    base = {key: base[key] for key in base if not key.startswith("attention.")}
    if task != "wmt":
        own |= {"data.image_size": 8, "model.patch_size": 2}
    options = attention_row(attention).options
    if options and "init" in load(options).model_fields:
        # At the identity some gradients are nearly zero, and AdamW magnifies their roundings.
        own["attention.init"] = "random"
    return resolve(None, [], {**base, **own})


def windows(task: Task, learner: Learner, world: World) -> list[list[Batch]]:
    keys = task.training_batches(0, 0)[: STEPS * ACCUMULATE]
    shares = Shares(keys, world.rank, world.size)
    dataset, like = task.dataset("train", training=True), next(learner.model.parameters())
    batches: list[Batch] = []
    for place in range(len(keys)):
        batch = move_batch(dataset.__getitems__(shares[place]), like)
        batches.append(StandIn(batch) if shares.stands_in(place) else batch)
    return [batches[start : start + ACCUMULATE] for start in range(0, len(batches), ACCUMULATE)]


def learn_catalogue(root: Path, out: Path) -> None:
    """Make a few updates with every attention on every kind of task, and keep the weights."""
    torch.set_num_threads(1)
    world = joined_world()
    kept: dict[str, torch.Tensor] = {}
    for name in TASKS:
        shared = build_task(config_of(name, "mha", root))
        for attention in ATTENTIONS:
            config = config_of(name, attention, root)
            task = build_task(config, shared.facts, shared.assets)
            learner = build_learner(config, task, CPU, world)
            for step, window in enumerate(windows(task, learner, world), start=1):
                update = learner.update(window, step=step, dropout_seed=step)
                kept[f"{name}/{attention}/loss {step}"] = torch.tensor([update.loss]).double()
            for parameter, value in learner.model.state_dict().items():
                kept[f"{name}/{attention}/{parameter}"] = value.clone()
    save_file(kept, out / f"{world.size}-{world.rank}.safetensors")
    world.close(failed=False)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of texts."""
    folder = tmp_path_factory.mktemp("texts")
    write_wmt(folder)
    return folder


@pytest.mark.slow
def test_every_attention_learns_the_same_in_two_processes(child, tmp_path, root):
    learn_catalogue(root, tmp_path)
    assert joined(start_ranks(child, 2, learn_catalogue, root, tmp_path)) == [0, 0]
    alone, first, second = (
        load_file(tmp_path / f"{name}.safetensors") for name in ("1-0", "2-0", "2-1")
    )
    assert alone.keys() == first.keys()
    assert len(ATTENTIONS) >= 17
    for name, value in alone.items():
        assert torch.equal(first[name], second[name]), f"{name} differs between the processes"
        scale = max(value.abs().max().item(), 1e-3)
        gap = (first[name] - value).abs().max().item() / scale
        tolerance = LOSS_TOLERANCE if "/loss " in name else WEIGHT_TOLERANCE
        assert gap <= tolerance, f"{name} differs by {gap}"
