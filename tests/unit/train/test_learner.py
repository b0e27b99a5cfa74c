"""One update: accumulation, averaging, dropout, the loss scaler, and refusing what is broken."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from toy_task import CPU, ToyTask, toy_batch, toy_learner, toy_settings

from damcha_core.errors import CheckpointError, NonFiniteError
from damcha_core.train.checkpoint import Checkpoint
from damcha_core.train.learner import Learner
from damcha_core.train.precision import Precision


def windows(ids: range, size: int) -> list[dict[str, torch.Tensor]]:
    return [toy_batch(ids[start : start + size]) for start in range(0, len(ids), size)]


def weights(learner: Learner) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in learner.model.named_parameters()}


@pytest.mark.parametrize("n", [8, 10])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_an_update_does_not_depend_on_its_micro_batches(n, size):
    """8 at once, 4 x 2, 2 x 4; and 10, whose last micro-batch is a leftover."""
    whole = toy_learner(clip_norm=0.05)
    split = toy_learner(clip_norm=0.05)
    for step in range(3):
        ids = range(step, step + n)
        one = whole.update([toy_batch(ids)], step=step + 1, dropout_seed=step)
        many = split.update(windows(ids, size), step=step + 1, dropout_seed=step)
        assert many.loss == pytest.approx(one.loss, rel=1e-12)
        assert many.grad_norm == pytest.approx(one.grad_norm, rel=1e-12)
    for name, value in weights(whole).items():
        torch.testing.assert_close(weights(split)[name], value, rtol=0, atol=1e-12)


def test_control_equal_weight_for_micro_batches_is_another_update():
    """Sample ids weigh differently here, so dividing by the number of micro-batches would show."""
    learner = toy_learner()
    ids = range(8)
    losses = [learner.task.loss(learner.model, batch) for batch in windows(ids, 2)]
    mean_of_means = sum((loss.total / loss.items).item() for loss in losses) / len(losses)
    update = learner.update(windows(ids, 2), step=1, dropout_seed=0)
    assert abs(update.loss - mean_of_means) > 1e-3


def test_the_loss_is_the_mean_over_the_items_before_the_update():
    learner = toy_learner()
    expected = learner.task.loss(learner.model, toy_batch(range(5)))
    update = learner.update([toy_batch(range(5))], step=1, dropout_seed=0)
    assert update.loss == pytest.approx(expected.total.item() / 15, rel=1e-15)
    assert update.applied


def test_one_adamw_step_by_hand():
    """First step of AdamW: the moments' corrections cancel, so it moves by the gradient's sign."""
    learner = toy_learner(lr=0.01, weight_decay=0.1)
    before = weights(learner)
    loss = learner.task.loss(learner.model, toy_batch(range(4)))
    (loss.total / loss.items).backward()
    gradients = {name: p.grad.clone() for name, p in learner.model.named_parameters()}
    learner.optimizer.zero_grad()
    learner.update([toy_batch(range(4))], step=1, dropout_seed=0)
    factors = {"first.weight": (3.0, 1 / 3), "second.weight": (1.0, 1.0)}
    for name, after in weights(learner).items():
        lr_factor, decay_factor = factors.get(name, (1.0, 0.0))
        rate = 0.01 * lr_factor
        moved = before[name] * (1 - rate * 0.1 * decay_factor)
        gradient = gradients[name]
        moved = moved - rate * gradient / (gradient.abs() + 1e-8)
        torch.testing.assert_close(after, moved, rtol=1e-12, atol=1e-14)


def test_every_group_follows_one_factor_of_the_schedule():
    learner = toy_learner(warmup_steps=3, horizon_steps=9, min_lr_ratio=0.1)
    rates = []
    for step in range(12):
        by_group = [g["lr"] / g["initial_lr"] for g in learner.optimizer.param_groups]
        update = learner.update([toy_batch([step])], step=step + 1, dropout_seed=0)
        assert by_group == pytest.approx([update.lr / 0.01] * len(by_group), rel=1e-15)
        rates.append(update.lr / 0.01)
    assert rates[:3] == pytest.approx([1 / 3, 2 / 3, 1.0])
    assert rates[9:] == pytest.approx([0.1] * 3)


def test_the_average_follows_its_formula():
    decay, learner = 0.75, toy_learner(ema_decay=0.75)
    assert learner.evaluation_model is not learner.model
    expected: dict[str, torch.Tensor] = {}
    for step in range(6):
        learner.update([toy_batch([step, step + 1])], step=step + 1, dropout_seed=0)
        for name, value in weights(learner).items():
            old = expected.get(name, value)
            expected[name] = decay * old + (1 - decay) * value
    averaged = dict(learner.evaluation_model.named_parameters())
    assert averaged.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(averaged[name].detach(), value, rtol=1e-13, atol=0)
        assert not torch.equal(value, weights(learner)[name])


def test_without_an_average_the_model_itself_is_validated():
    learner = toy_learner()
    assert learner.evaluation_model is learner.model
    assert not any(name.startswith("ema") for name in learner.tensors())


def test_dropout_is_a_function_of_its_seed_alone():
    def after(seed: int, disturb: bool) -> dict[str, torch.Tensor]:
        learner = toy_learner(dropout=0.5)
        learner.model.eval()
        if disturb:
            torch.rand(100)
        learner.update([toy_batch(range(6))], step=1, dropout_seed=seed)
        assert learner.model.training
        return weights(learner)

    first = after(1, disturb=False)
    assert all(torch.equal(after(1, disturb=True)[name], value) for name, value in first.items())
    assert any(not torch.equal(after(2, disturb=False)[n], value) for n, value in first.items())


def scaled_learner() -> Learner:
    """A learner with a real loss scaler, which float16 has, on a device that everybody has."""
    torch.manual_seed(0)
    task, precision = ToyTask(), Precision("float32", CPU)
    precision.scaler = torch.amp.GradScaler("cpu", enabled=True, init_scale=8.0, growth_interval=2)
    settings = toy_settings(warmup_steps=4, ema_decay=0.5, clip_norm=0.1)
    return Learner(task, task.build_model(), settings=settings, precision=precision)


def float_batch(ids: range) -> dict[str, torch.Tensor]:
    batch = toy_batch(ids)
    return {n: t.float() if t.is_floating_point() else t for n, t in batch.items()}


def overflowing(learner: Learner) -> torch.utils.hooks.RemovableHandle:
    return learner.model.second.weight.register_hook(lambda gradient: gradient * math.inf)


def test_an_overflow_under_the_scaler_skips_the_step():
    learner = scaled_learner()
    learner.update([float_batch(range(4))], step=1, dropout_seed=0)
    before = {n: t.clone() for n, t in learner.tensors().items() if not n.startswith("random")}
    old, rate = weights(learner), learner.scheduler.last_epoch
    handle = overflowing(learner)
    update = learner.update([float_batch(range(4))], step=2, dropout_seed=0)
    handle.remove()
    assert not update.applied
    assert update.grad_norm == 0.0
    assert learner.precision.scaler.get_scale() == 4.0
    assert learner.scheduler.last_epoch == rate
    assert all(torch.equal(old[name], value) for name, value in weights(learner).items())
    assert all(torch.equal(before[name], learner.tensors()[name]) for name in before)
    assert learner.update([float_batch(range(4))], step=3, dropout_seed=0).applied


def test_scaling_changes_nothing_but_rounding():
    scaled, plain = scaled_learner(), scaled_learner()
    plain.precision.scaler = torch.amp.GradScaler("cpu", enabled=False)
    for step in range(5):
        one = scaled.update([float_batch(range(4))], step=step + 1, dropout_seed=0)
        two = plain.update([float_batch(range(4))], step=step + 1, dropout_seed=0)
        assert one.grad_norm == pytest.approx(two.grad_norm, rel=1e-6)
    for name, value in weights(plain).items():
        torch.testing.assert_close(weights(scaled)[name], value, rtol=1e-5, atol=1e-7)


def as_checkpoint(learner: Learner, step: int) -> Checkpoint:
    """The learner's state as it comes back from a file: copied."""
    return Checkpoint(
        step,
        {n: t.clone() for n, t in learner.model.state_dict().items()},
        {n: t.clone() for n, t in learner.tensors().items()},
        {"scaler": learner.precision.scaler.state_dict()},
        "hash",
    )


def test_the_scaler_comes_back_with_a_checkpoint():
    learner = scaled_learner()
    handle = overflowing(learner)
    learner.update([float_batch(range(4))], step=1, dropout_seed=0)
    handle.remove()
    learner.update([float_batch(range(4))], step=2, dropout_seed=0)
    other = scaled_learner()
    other.restore(as_checkpoint(learner, 2), updates=1)
    assert other.precision.scaler.state_dict() == learner.precision.scaler.state_dict()
    for step in (3, 4, 5):
        one = learner.update([float_batch(range(4))], step=step, dropout_seed=0)
        two = other.update([float_batch(range(4))], step=step, dropout_seed=0)
        assert one == two
    assert all(torch.equal(weights(other)[n], value) for n, value in weights(learner).items())


def test_a_state_of_skipped_steps_alone_comes_back_too():
    learner = scaled_learner()
    overflowing(learner)
    learner.update([float_batch(range(4))], step=1, dropout_seed=0)
    other = scaled_learner()
    other.restore(as_checkpoint(learner, 1), updates=0)
    assert other.scheduler.last_epoch == 0


def test_a_scaler_that_does_not_fit_is_refused():
    learner = scaled_learner()
    learner.update([float_batch(range(4))], step=1, dropout_seed=0)
    checkpoint = as_checkpoint(learner, 1)
    for scaler in ({}, {"scale": 1.0}, 3):
        broken = Checkpoint(1, checkpoint.weights, checkpoint.tensors, {"scaler": scaler}, "hash")
        with pytest.raises(CheckpointError, match="loss scaler"):
            scaled_learner().restore(broken, updates=1)


def test_restoring_continues_bit_by_bit():
    settings = {"ema_decay": 0.9, "warmup_steps": 3, "clip_norm": 0.1}
    learner = toy_learner(dropout=0.2, **settings)
    for step in range(4):
        learner.update([toy_batch([step, step + 3])], step=step + 1, dropout_seed=step)
    other = toy_learner(dropout=0.2, seed=9, **settings)
    other.restore(as_checkpoint(learner, 4), updates=4)
    for step in range(4, 8):
        one = learner.update([toy_batch([step, step + 3])], step=step + 1, dropout_seed=step)
        two = other.update([toy_batch([step, step + 3])], step=step + 1, dropout_seed=step)
        assert one == two
    for name, tensor in learner.tensors().items():
        assert torch.equal(other.tensors()[name], tensor), name


def test_restoring_copies_what_it_takes():
    learner = toy_learner(ema_decay=0.9)
    learner.update([toy_batch([1])], step=1, dropout_seed=0)
    checkpoint = as_checkpoint(learner, 1)
    kept = {name: tensor.clone() for name, tensor in checkpoint.weights.items()}
    other = toy_learner(ema_decay=0.9)
    other.restore(checkpoint, updates=1)
    other.update([toy_batch([2])], step=2, dropout_seed=0)
    assert all(torch.equal(checkpoint.weights[name], value) for name, value in kept.items())


@pytest.mark.parametrize(
    ("part", "value"),
    [("images", math.nan), ("targets", math.nan), ("targets", math.inf), ("targets", -math.inf)],
)
def test_a_broken_loss_in_a_later_micro_batch_changes_nothing(part, value):
    learner = toy_learner(ema_decay=0.5)
    before = weights(learner)
    bad = toy_batch([4, 5])
    bad[part][1, 1] = value
    with pytest.raises(NonFiniteError, match=rf"step 7: .* \({part}\) \(training samples 4, 5\)"):
        learner.update([toy_batch([1, 2]), bad], step=7, dropout_seed=0)
    assert all(torch.equal(before[name], value) for name, value in weights(learner).items())
    assert learner.optimizer.state == {}
    assert all(p.grad is None for p in learner.model.parameters())
    assert not any(module._forward_hooks for module in learner.model.modules())


def test_only_some_of_many_samples_are_listed():
    learner = toy_learner()
    learner.model.first.bias.data[0] = math.nan
    with pytest.raises(NonFiniteError, match=r"in first \(training samples 0, .*, 7, \.\.\.\)"):
        learner.update([toy_batch(range(12))], step=1, dropout_seed=0)


def test_an_overflowing_norm_of_finite_gradients_is_named_so():
    learner = toy_learner(precision="float32")
    handle = learner.model.second.weight.register_hook(lambda g: torch.full_like(g, 3e38))
    with pytest.raises(NonFiniteError, match="the norm of all gradients"):
        learner.update([float_batch(range(4))], step=1, dropout_seed=0)
    handle.remove()


def test_a_compiled_model_keeps_the_names_of_its_tensors(monkeypatch):
    """P49: torch.compile puts a prefix before every key of the module it returns."""

    class Wrapped(nn.Module):
        def __init__(self, model: nn.Module) -> None:
            super().__init__()
            self._orig_mod = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self._orig_mod(x)

    plain = toy_learner(ema_decay=0.5)
    monkeypatch.setattr(torch, "compile", Wrapped)
    compiled = toy_learner(ema_decay=0.5, compile=True)
    assert isinstance(compiled.forward_model, Wrapped)
    for learner in (plain, compiled):
        learner.update([toy_batch([1, 2])], step=1, dropout_seed=0)
    assert compiled.model.state_dict().keys() == plain.model.state_dict().keys()
    assert compiled.tensors().keys() == plain.tensors().keys()
    assert all(torch.equal(weights(plain)[n], value) for n, value in weights(compiled).items())
