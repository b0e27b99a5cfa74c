"""A run that was trained, read back from its folder alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from damcha_core.catalog.tasks import task_rows
from damcha_core.config.identity import differing_keys
from damcha_core.config.resolve import config_from_run
from damcha_core.config.schema import RunConfig
from damcha_core.decoding.search_settings import SearchSettings
from damcha_core.errors import CheckpointError, DamchaError, DiskError, UsageError
from damcha_core.evaluate.evaluator import Evaluation, build_evaluator, reporting_model
from damcha_core.evaluate.text.generation import Answer, TextGenerator
from damcha_core.models.conditional_lm import ConditionalLM
from damcha_core.tasks.build import build_task, task_type
from damcha_core.tasks.reconstruction import ReconstructionTask
from damcha_core.tasks.task import Task
from damcha_core.tasks.text_task import TextTask
from damcha_core.train.checkpoint import Checkpoint
from damcha_core.train.device import choose_device, memory_errors
from damcha_core.train.learner import EMA
from damcha_core.train.result import result_record
from damcha_core.train.resumption import require_own
from damcha_core.train.run_folder import RunFolder
from damcha_core.train.tensor_file import read_tensors
from damcha_core.train.weights import load_weights

if TYPE_CHECKING:
    from damcha_core.evaluate.restoration import Restoration

WINDOW_BATCHES = 16
"""Lines are read this many batches ahead, so that those of like length can go together; with a
batch size of 1 each line is answered before the next one is read."""

EVALUATION_MAY_CHANGE = (
    "run.device",
    "run.threads",
    "data.root",
    "data.workers",
    "data.mask_ratio",
    "data.verify",
    "eval.split",
    "eval.batch_size",
    "eval.beam",
    "eval.length_penalty",
    "eval.max_new_tokens",
)


def ignored(notice: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class TrainedRun:
    """A trained model with the settings and the task it was trained on.

    Attributes:
        folder: where it lives.
        stored: the settings it was trained under.
        config: these settings, as changed for this evaluation.
        task: its task; data is read only when a split is asked for.
        model: in evaluation mode and float64 (float32 on mps), EMA weights where there are any.
        checkpoint: name of the checkpoint the weights are from.
        step: its step.
    """

    folder: RunFolder
    stored: RunConfig
    config: RunConfig
    task: Task
    model: nn.Module
    checkpoint: str
    step: int

    @property
    def device(self) -> str:
        """Where the model computes."""
        return str(next(self.model.parameters()).device)

    def evaluate(
        self, split: str, *, notify: Callable[[str], None] = ignored
    ) -> tuple[Evaluation, dict[str, Any]]:
        """Score the model on a split, with the trivial answers beside it.

        Args:
            split: "train", "valid", "test", or what else the task has.
            notify: told, before the work starts, what the report will lack, and whether the split
                is another one than that of the training.

        Returns:
            The scores, and the record for result.json.

        Raises:
            DataError: the data set is missing.
            UsageError: there is no such split.
            OutOfMemoryError: the batch does not fit.
        """
        evaluator = build_evaluator(self.task)
        for line in (*evaluator.notices(), *self._split_notices(split)):
            notify(line)
        with memory_errors():
            evaluation = evaluator.evaluate(
                self.model,
                split,
                batch_size=self.config.eval.batch_size,
                workers=self.config.data.workers,
                for_report=True,
            )
        return evaluation, self.record(evaluation)

    def record(self, evaluation: Evaluation) -> dict[str, Any]:
        """The record of an evaluation of this run, as result.json holds it."""
        name = self.folder.path.resolve().name
        known = evaluation.split in self.task.row.splits  # not so for given pictures
        origin = self.task.origin(evaluation.split) if known else {}
        return result_record(self.stored, evaluation, run=name, step=self.step, origin=origin)

    def _split_notices(self, split: str) -> list[str]:
        lines = list(self.task.split_notices(split))
        if self.task.has_changed(split):
            lines.append(
                f"the {split} split is not the one that the run was started with: its sha256 "
                f"begins with {self.task.content_hash(split)[:8]}, then "
                f"{self.task.facts.content[split][:8]}"
            )
        return lines

    def keep_samples(self, evaluation: Evaluation) -> str:
        """Keep what the model made of a split in the run folder, if it may be kept.

        Returns:
            Why it was not kept: the data are not the run's own, or the folder cannot be written.
            Empty: it was.
        """
        if self.task.has_changed(evaluation.split):
            return "the data are not those of the run"
        try:
            self.folder.keep_samples(evaluation.split, evaluation.files)
        except DiskError as error:  # a run may be read where it cannot be written
            return str(error).partition("\n")[0]
        return ""

    def reconstruction_task(self) -> ReconstructionTask:
        """The task, where it is one that hides patches and paints them.

        Raises:
            CheckpointError: the run was trained on something else.
        """
        if not isinstance(self.task, ReconstructionTask):
            raise CheckpointError(
                f"{self.folder.path}: trained on {self.config.run.task}, which hides no patches; "
                "reconstruct needs a run of digits, cifar10 or images"
            )
        return self.task

    def text_task(self) -> TextTask:
        """The task, where it is one that writes texts.

        Raises:
            CheckpointError: the run was trained on something else.
        """
        if not isinstance(self.task, TextTask):
            names = ", ".join(row.name for row in task_rows() if row.is_text)
            raise CheckpointError(
                f"{self.folder.path}: trained on {self.config.run.task}, which writes no texts; "
                f"generate needs a run of one of {names}"
            )
        return self.task

    def generate(
        self,
        lines: Iterable[str],
        settings: SearchSettings,
        *,
        batch_size: int,
        place_concepts: bool = False,
    ) -> Iterator[Answer]:
        """Write a text for each line, as the lines come.

        Args:
            lines: sources without line breaks, of any number.
            settings: how to search.
            batch_size: lines at a time; it changes no text.
            place_concepts: make each text hold every word of its line.

        Yields:
            An answer a line, in order; a blank line has a blank one.

        Raises:
            CheckpointError: the run writes no texts.
            UsageError: concepts are to be placed and the run translates.
            OutOfMemoryError: a batch does not fit.
        """
        task = self.text_task()
        if place_concepts and not task.row.grouped:
            raise UsageError(
                f"--place-concepts needs a run of concepts or commongen, not of {task.row.name}"
            )
        assert isinstance(self.model, ConditionalLM)
        generator = TextGenerator(
            self.model,
            task.tokenizer,
            settings=settings,
            max_source_tokens=task.max_source_tokens,
            batch_size=batch_size,
            place_concepts=place_concepts,
        )
        n_window = 1 if batch_size == 1 else WINDOW_BATCHES * batch_size
        unread, stopped = iter(lines), None
        while stopped is None:
            window: list[str] = []
            try:
                window.extend(islice(unread, n_window))
            except DamchaError as error:  # what came before the line at fault is answered first
                stopped = error
            if not window and stopped is None:
                return
            with memory_errors():
                answers = generator.answers(window)
            yield from answers
        raise stopped

    def reconstruct(
        self, images: Sequence[Path], *, split: str = "", count: int = 8
    ) -> tuple[Restoration, tuple[str, ...]]:
        """Hide patches of pictures and paint them again.

        Args:
            images: picture files, which all get the same mask; none takes the first pictures of
                a split, masked as in an evaluation.
            split: that split; empty takes eval.split.
            count: how many pictures of the split.

        Returns:
            The restored pictures, and a line for each file that could not be read.

        Raises:
            CheckpointError: the run was not trained to reconstruct.
            UsageError: picture files together with a split.
            DataError: no picture could be read.
        """
        from damcha_core.evaluate.given_pictures import first_pictures, open_pictures
        from damcha_core.evaluate.restoration import restore

        task = self.reconstruction_task()
        if images and split:
            raise UsageError("give picture files or --split, not both")
        split_name = "pictures" if images else split or self.config.eval.split
        notices: tuple[str, ...] = ()
        if images:
            facts = task.facts
            pictures, notices = open_pictures(
                images, image_size=facts.image_size, channels=facts.channels
            )
        else:
            pictures = first_pictures(task.split(split_name), count, split_name)
        with memory_errors():
            restoration = restore(
                task,
                self.model,
                pictures,
                mean_picture_CSS=self._mean_picture(),
                split_name=split_name,
                one_mask=bool(images),
            )
        return restoration, notices

    def _mean_picture(self) -> Tensor:
        path, facts = self.folder.mean_picture_file, self.reconstruction_task().facts
        picture_CSS = read_tensors(path).get("mean_picture", torch.empty(0))
        shape = (facts.channels, facts.image_size, facts.image_size)
        if picture_CSS.shape != shape or picture_CSS.dtype != torch.float64:
            raise CheckpointError(f"{path}: no picture of this run: it should be {shape} float64")
        return picture_CSS


def load_run(
    path: Path,
    *,
    checkpoint: str = "best",
    sets: Sequence[str] = (),
    flags: Mapping[str, Any] | None = None,
) -> TrainedRun:
    """Read a run back.

    Args:
        path: the run folder; nothing outside it is needed.
        checkpoint: "best", "last", a step or a checkpoint's name.
        sets: "section.key=value" changes of EVALUATION_MAY_CHANGE.
        flags: changes by dotted key, likewise; None as a value: not given.

    Raises:
        CheckpointError: there is no such run or checkpoint, or it is damaged or does not fit.
        ConfigError: a change is not valid.
        UsageError: a change would make it another model, or the device is not there.
    """
    folder = RunFolder.open(path)
    stored = folder.read_config()
    config = config_from_run(folder.config_file, sets, flags)
    forbidden = [k for k in differing_keys(stored, config) if k not in EVALUATION_MAY_CHANGE]
    if forbidden:
        raise UsageError(
            f"{', '.join(forbidden)} cannot change in a trained run; "
            f"only {', '.join(EVALUATION_MAY_CHANGE)} may"
        )
    target = choose_device(config.run.device)
    name, content = _read_checkpoint(folder, checkpoint)
    place = folder.checkpoints.folder / name
    kind = task_type(config)
    assets = folder.read_assets(kind.asset_names)
    require_own(place, content, stored, assets)
    task = build_task(config, folder.read_facts(kind.facts_type), assets)
    if config.run.threads:
        torch.set_num_threads(config.run.threads)
    with memory_errors():
        model = reporting_model(task.build_model().to(target))
        try:
            load_weights(model, _reported_weights(content, config))
        except CheckpointError as error:
            raise CheckpointError(f"{place}: {error}") from error
    return TrainedRun(folder, stored, config, task, model.eval(), name, content.step)


def _read_checkpoint(folder: RunFolder, wanted: str) -> tuple[str, Checkpoint]:
    """Read a checkpoint; where that fails, say which other one is there."""
    try:
        return folder.checkpoints.load(wanted)
    except CheckpointError as error:
        others = [name for name in folder.checkpoints.names() if name not in str(error)]
        if not others:
            raise
        raise CheckpointError(
            f"{error}\nAnother one is there: --checkpoint {others[-1]}"
        ) from error


def _reported_weights(checkpoint: Checkpoint, config: RunConfig) -> Mapping[str, Tensor]:
    """The EMA's weights where the run kept one, else the model's."""
    if config.train.ema_decay == 0:
        return checkpoint.weights
    return {
        name.removeprefix(EMA): tensor
        for name, tensor in checkpoint.tensors.items()
        if name.startswith(EMA)
    }
