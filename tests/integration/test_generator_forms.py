"""The head form of the generator follows the matrix form through the whole trainer.

100 AdamW steps with weight decay, warm-up, cosine, a floor, clipping, accumulation and averaging
(DESIGN 2.1): the converted weights of the matrix form are those of the head form.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from tiny_runs import Recorder, tiny_config
from torch import Tensor

from damcha_core.attention.generator import MetricGenerator
from damcha_core.evaluate.evaluator import build_evaluator
from damcha_core.tasks.build import build_task
from damcha_core.train.learner import Learner
from damcha_core.train.run import build_learner
from damcha_core.train.run_folder import RunFolder
from damcha_core.train.signals import StopRequest
from damcha_core.train.state import TrainState
from damcha_core.train.trainer import Trainer

CPU = torch.device("cpu")
STEPS, N_HEADS = 100, 4
CHANGES: dict[str, object] = {
    "run.task": "digits",
    "data.image_size": 8,
    "model.patch_size": 2,
    "model.d_model": 16,
    "model.n_heads": N_HEADS,
    "model.dropout": 0.0,
    "attention.mlp_hidden": [12],
    "attention.lr_scale": "matrix",
    "train.precision": "float64",
    "train.batch_size": 16,
    "train.accumulate": 2,
    "train.max_steps": STEPS,
    "train.horizon_steps": 80,
    "train.warmup_steps": 10,
    "train.lr": 5e-3,
    "train.min_lr_ratio": 0.1,
    "train.weight_decay": 0.1,
    "train.clip_norm": 0.1,
    "train.ema_decay": 0.9,
    "eval.batch_size": 250,
}
TOLERANCE = 1e-10


def trainer_of(out: Path, form: str, source: str, steps: int = STEPS) -> Trainer:
    own: dict[str, object] = {
        "attention.output": form,
        "attention.source": source,
        "train.max_steps": steps,
    }
    if source == "static":
        own["attention.mlp_hidden"] = None
    config = tiny_config(out, **{**CHANGES, **own})
    task = build_task(config)
    out.mkdir()
    return Trainer(
        config, task=task, learner=build_learner(config, task, CPU),
        evaluator=build_evaluator(task), folder=RunFolder(out), state=TrainState(),
    )  # fmt: skip


def generator_of(learner: Learner) -> MetricGenerator:
    generator = learner.model.transformer.shared
    assert isinstance(generator, MetricGenerator)
    return generator


def converted(matrix: Learner, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights of the matrix form as the head form has them."""
    matrix.model.load_state_dict(dict(weights))
    head = generator_of(matrix).to_head()
    summed = {f"transformer.shared.{name}": t for name, t in head.state_dict().items()}
    return {**weights, **summed}


def snapshot(model: torch.nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def run(trainer: Trainer) -> Recorder:
    watcher = Recorder()
    with StopRequest() as stop:
        trainer.run(watcher, stop)
    return watcher


@pytest.mark.slow
@pytest.mark.parametrize("source", ["adaptive", "static"])
def test_both_forms_end_with_the_same_weights(tmp_path, source):
    matrix = trainer_of(tmp_path / "matrix", "matrix", source)
    head = trainer_of(tmp_path / "head", "head", source)
    start = snapshot(matrix.learner.model)
    head.learner.model.load_state_dict(converted(matrix.learner, start))
    head.learner.average.module.load_state_dict(head.learner.model.state_dict())
    seen = [run(trainer) for trainer in (matrix, head)]

    losses = [[report.loss for report in watcher.steps] for watcher in seen]
    assert len(losses[0]) == STEPS
    norms = [[report.grad_norm for report in watcher.steps] for watcher in seen]
    assert losses[1] == pytest.approx(losses[0], rel=1e-10)
    assert norms[1] == pytest.approx(norms[0], rel=1e-8)
    clip = CHANGES["train.clip_norm"]
    clipped = sum(norm > clip for norm in norms[0])
    assert clipped > STEPS // 10, "clipping must take part"
    assert losses[0][-1] < 0.5 * losses[0][0], "the run must go somewhere"

    ends = [trainer.learner.model for trainer in (matrix, head)]
    averages = [trainer.learner.evaluation_model for trainer in (matrix, head)]
    for one, other in (ends, averages):
        expected, got = converted(matrix.learner, snapshot(one)), snapshot(other)
        assert got.keys() == expected.keys()
        for name, tensor in expected.items():
            difference = (got[name] - tensor).abs().max().item()
            assert difference <= TOLERANCE, f"{name} differs by {difference}"
            assert name.startswith("embedding.position") or not torch.equal(
                got[name], start.get(name, tensor + 1)
            ), f"{name} never moved"


def test_control_without_the_factors_the_forms_part(tmp_path, monkeypatch):
    monkeypatch.setattr(MetricGenerator, "parameter_factors", lambda _self: {})
    matrix = trainer_of(tmp_path / "matrix", "matrix", "adaptive", steps=12)
    head = trainer_of(tmp_path / "head", "head", "adaptive", steps=12)
    start = converted(matrix.learner, snapshot(matrix.learner.model))
    head.learner.model.load_state_dict(start)
    losses = [[report.loss for report in run(trainer).steps] for trainer in (matrix, head)]
    assert losses[1][0] == pytest.approx(losses[0][0], rel=1e-10)
    assert abs(losses[1][-1] - losses[0][-1]) > 1e-6 * losses[0][-1]
