"""The training loop: epochs of updates, a validation after each, checkpoints in between."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from damcha_core.config.identity import config_hash
from damcha_core.config.schema import RunConfig
from damcha_core.data.loader import make_loader
from damcha_core.data.order import SampleKey
from damcha_core.data.randomness import torch_seed
from damcha_core.errors import Interrupted, NonFiniteError
from damcha_core.evaluate.evaluator import (
    Evaluation,
    EvaluationStopped,
    Evaluator,
    MetricValue,
)
from damcha_core.tasks.task import Batch, Task, move_batch
from damcha_core.train.checkpoint import Checkpoint
from damcha_core.train.learner import Learner
from damcha_core.train.metrics_log import MetricsLog, NoLog
from damcha_core.train.observer import EpochReport, Observer, StepReport
from damcha_core.train.result import finite_or_none
from damcha_core.train.resumption import fingerprints, run_hash
from damcha_core.train.run_folder import RunFolder
from damcha_core.train.shares import Shares, StandIn
from damcha_core.train.signals import StopFlag
from damcha_core.train.state import TrainState

MOST_SKIPPED_IN_A_ROW = 20

Log = MetricsLog | NoLog


class Trainer:
    """Trains a learner on a task until the settings or a signal end it.

    Args:
        config: resolved settings with the horizon fixed.
        task: data and loss.
        learner: model and optimiser, fresh or restored; of several processes each has a trainer.
        evaluator: scores the validation split.
        folder: where checkpoints and metrics go.
        state: position to start from; changed in place.
    """

    def __init__(
        self,
        config: RunConfig,
        *,
        task: Task,
        learner: Learner,
        evaluator: Evaluator,
        folder: RunFolder,
        state: TrainState,
    ) -> None:
        self.config = config
        self.task = task
        self.learner = learner
        self.world = learner.world
        self.evaluator = evaluator
        self.folder = folder
        self.state = state

    def run(self, observer: Observer, stop: StopFlag) -> None:
        """Train to the end of the settings, to train.stop_after_epochs, or to a signal.

        Args:
            observer: told what happens.
            stop: turns true when a signal arrived, in all processes after the same step.

        Raises:
            Interrupted: a signal arrived; the state after the last finished step is saved.
            NonFiniteError: a loss or gradient is not finite.
            DiskError: a checkpoint or the log cannot be written.
        """
        train, state = self.config.train, self.state
        pause = train.stop_after_epochs if train.stop_after_epochs > state.epoch else 0
        # Between the last step of an epoch and the end of its validation all of it is consumed.
        validated = state.consumed == 0
        with self._open_log(validated) as log:
            try:
                while not state.ended and not (pause and state.epoch >= pause):
                    self._epoch(log, observer, stop)
            except EvaluationStopped:
                pass
            finally:
                observer.finished()
            if stop and not state.ended:
                self._interrupt(log, stop)

    def _open_log(self, validated: bool) -> AbstractContextManager[Log]:
        if not self.world.leads:
            return nullcontext(NoLog())
        path, step = self.folder.metrics_file, self.state.step
        return MetricsLog(path, resume_step=step, validated=validated)

    def _interrupt(self, log: Log, stop: StopFlag) -> None:
        name = self.world.from_lead(lambda: self._save(log))
        self.world.fail(
            Interrupted(
                f"stopped by signal {stop.signal_number} after step {self.state.step}; saved "
                f"{self.folder.path / 'checkpoints' / name}.\n"
                f"Go on with: damcha train --resume {self.folder.path}",
                stop.signal_number,
            )
        )

    def _epoch(self, log: Log, observer: Observer, stop: StopFlag) -> None:
        """Train the rest of an epoch, validate, and save.

        Raises:
            EvaluationStopped: a signal arrived; a validation that is still owed comes first when
                the run is resumed, because the epoch is not closed.
        """
        started, epoch = time.perf_counter(), self.state.epoch + 1
        train_loss = self._train_epoch(log, observer, stop)
        evaluation = self._validate(log, stop) if self.world.size == 1 else self._scored(log, stop)
        improved = self._close_epoch(evaluation)
        if self.world.leads:
            self._save(log, best=improved)
        observer.epoch(
            EpochReport(
                epoch=epoch,
                step=self.state.step,
                train_loss=train_loss,
                metrics={name: m.value for name, m in evaluation.metrics.items()},
                main=self.task.row.metrics[0].name,
                improved=improved,
                seconds=time.perf_counter() - started,
            )
        )

    def _train_epoch(self, log: Log, observer: Observer, stop: StopFlag) -> float | None:
        """Make the steps that are left of an epoch; their mean loss, None if there were none."""
        train, state = self.config.train, self.state
        items, loss_sum = 0, 0.0
        for window in self._windows():
            report = self._step(window, log)
            observer.step(report)
            items += report.items
            loss_sum += report.loss * report.items
            if stop:
                raise EvaluationStopped
            over = self._epoch_is_consumed() or self._max_steps_reached()
            due = train.save_every_steps and state.step % train.save_every_steps == 0
            if due and not over and self.world.leads:
                self._save(log)
        return loss_sum / items if items else None

    def _max_steps_reached(self) -> bool:
        return 0 < self.config.train.max_steps <= self.state.step

    def _epoch_is_consumed(self) -> bool:
        return self.state.consumed >= self.task.facts.samples["train"]

    def _close_epoch(self, evaluation: Evaluation) -> bool:
        """Take a validation into the state; True if it is the best so far."""
        train, state = self.config.train, self.state
        main = self.task.row.metrics[0]
        value = evaluation.metrics[main.name].value
        improved = state.best.update(value, state.step, better=main.better, loss=evaluation.loss)
        if self._epoch_is_consumed():
            state.epoch, state.consumed = state.epoch + 1, 0
        if self._max_steps_reached():
            state.ended = "max_steps"
        elif state.epoch >= train.epochs:
            state.ended = "epochs"
        elif train.patience and state.best.waited >= train.patience:
            state.ended = "patience"
        return improved

    def _windows(self) -> Iterator[list[Batch]]:
        """Groups of micro-batches that make one update each; the last may be short.

        Several processes get their shares of each.
        """
        keys = self.task.training_batches(self.state.epoch, self.state.consumed)
        if self.config.train.max_steps:  # do not load what will not be trained on
            steps_left = max(0, self.config.train.max_steps - self.state.step)
            keys = keys[: steps_left * self.config.train.accumulate]
        dataset = self.task.dataset("train", training=True)
        like = next(self.learner.model.parameters())
        own: Sequence[list[SampleKey]] = keys
        if self.world.size > 1:
            own = shares = Shares(keys, self.world.rank, self.world.size)
        window: list[Batch] = []
        for place, batch in enumerate(make_loader(dataset, own, self.config.data.workers)):
            moved = move_batch(batch, like)
            stands_in = self.world.size > 1 and shares.stands_in(place)
            window.append(StandIn(moved) if stands_in else moved)
            if len(window) == self.config.train.accumulate:
                yield window
                window = []
        if window:
            yield window

    def _step(self, window: list[Batch], log: Log) -> StepReport:
        started = time.perf_counter()
        state = self.state
        dropout_seed = torch_seed("dropout", self.config.run.seed, state.step, self.world.rank)
        update = self.learner.update(window, step=state.step + 1, dropout_seed=dropout_seed)
        state.step += 1
        state.consumed += update.samples
        state.skipped += not update.applied
        state.skipped_in_a_row = 0 if update.applied else state.skipped_in_a_row + 1
        if state.skipped_in_a_row >= MOST_SKIPPED_IN_A_ROW:
            self.world.fail(
                NonFiniteError(
                    f"step {state.step}: {MOST_SKIPPED_IN_A_ROW} steps in a row had no finite "
                    "gradient in float16.\nUse --precision bfloat16 or float32, or lower train.lr."
                )
            )
        report = StepReport(
            step=state.step,
            epoch=state.epoch + 1,
            loss=update.loss,
            items=update.items,
            lr=update.lr,
            grad_norm=update.grad_norm,
            size=update.size,
            seconds=time.perf_counter() - started,
        )
        log.write(
            {
                "step": report.step,
                "epoch": report.epoch,
                "split": "train",
                "loss": report.loss,
                "lr": report.lr,
                "grad_norm": report.grad_norm,
                self.task.unit: report.size,
                "seconds": round(report.seconds, 6),
            }
        )
        return report

    def _scored(self, log: Log, stop: StopFlag) -> Evaluation:
        """The leader's validation, in every process."""

        def outcome() -> dict[str, Any]:
            try:
                evaluation = self._validate(log, stop)
            except EvaluationStopped:
                return {}
            metrics = {n: [m.value, m.unit, m.n, m.better] for n, m in evaluation.metrics.items()}
            return {"loss": evaluation.loss, "size": evaluation.size, "metrics": metrics}

        found = self.world.from_lead(outcome)
        if not found:
            self.world.sums()  # brings the signal that stopped it to all
            raise EvaluationStopped
        metrics = {name: MetricValue(*of) for name, of in found["metrics"].items()}
        return Evaluation("valid", found["loss"], found["size"], metrics)

    def _validate(self, log: Log, stop: StopFlag) -> Evaluation:
        started = time.perf_counter()
        try:
            evaluation = self.evaluator.evaluate(
                self.learner.evaluation_model,
                "valid",
                batch_size=self.config.eval.batch_size,
                workers=self.config.data.workers,
                should_stop=lambda: stop.came_here,
            )
        except NonFiniteError as error:
            raise NonFiniteError(f"validation after step {self.state.step}: {error}") from error
        record: dict[str, Any] = {
            "step": self.state.step,
            "epoch": self.state.epoch + 1,
            "split": "valid",
            "loss": finite_or_none(evaluation.loss),
            "lr": None,
            "grad_norm": None,
            self.task.unit: evaluation.size,
            "seconds": round(time.perf_counter() - started, 6),
            "metrics": {name: finite_or_none(m.value) for name, m in evaluation.metrics.items()},
        }
        self.folder.keep_samples(f"valid-step-{self.state.step:08d}", evaluation.files)
        log.write(record)
        return evaluation

    def _save(self, log: Log, *, best: bool = False) -> str:
        log.sync()
        checkpoint = Checkpoint(
            step=self.state.step,
            weights=self.learner.model.state_dict(),
            tensors=self.learner.tensors(),
            state={
                "position": self.state.to_mapping(),
                "run_hash": run_hash(self.config),
                "assets": fingerprints(self.task.assets),
                "scaler": self.learner.precision.scaler.state_dict(),
            },
            config_hash=config_hash(self.config),
            threads=torch.get_num_threads(),
            world_size=self.world.size,
        )
        return self.folder.checkpoints.save(
            checkpoint, best=best, keep_last=self.config.train.keep_last
        )
