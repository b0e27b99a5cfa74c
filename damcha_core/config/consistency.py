"""Settings that are fine one by one and do not go together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from damcha_core.catalog.run_attentions import built_row
from damcha_core.catalog.tasks import TaskRow, task_row
from damcha_core.config.options import DamchaOptions
from damcha_core.config.schema import RunConfig
from damcha_core.config.values import shown
from damcha_core.errors import UsageError

SMALLEST_RECALL_VOCABULARY = 9
"""Four keys, four values and the blank; fewer make too few sequences for three splits."""

EASY_PAIRS = 4
"""Pairs that the training of recall begins with, where data.easy_epochs is not 0."""


@dataclass(frozen=True)
class Conflict:
    """Keys whose values do not go together, and one line that says why and what would."""

    keys: tuple[str, ...]
    text: str


def conflicts(config: RunConfig) -> Iterator[Conflict]:
    """All conflicts of settings that can be seen without data or a device.

    Args:
        config: settings, each of which is valid by itself.

    Yields:
        One conflict at a time.
    """
    model = config.model
    if model.d_model % model.n_heads:
        yield Conflict(
            ("model.d_model", "model.n_heads"),
            f"model.d_model = {model.d_model} cannot be split into model.n_heads = "
            f"{model.n_heads} heads of equal width: give a multiple, such as "
            f"{multiples(model.d_model, model.n_heads)}",
        )
    step = built_row(config.attention.name).head_multiple
    if model.n_heads % step:
        yield Conflict(
            ("model.n_heads", "attention.name"),
            f"model.n_heads = {model.n_heads} is refused: {config.attention.name} takes its heads "
            f"{step} at a time; give a multiple, such as {multiples(model.n_heads, step)}",
        )
    row = known_task(config.run.task)
    if row is not None:
        yield from task_conflicts(row, config)
    if isinstance(config.attention.options, DamchaOptions):
        yield from damcha_conflicts(config.attention.options)


def task_conflicts(row: TaskRow, config: RunConfig) -> Iterator[Conflict]:
    """Settings that do not go with the task.

    Args:
        row: the task.
        config: settings, each of which is valid by itself.

    Yields:
        One conflict at a time.
    """
    if config.eval.split not in row.splits:
        yield Conflict(
            ("eval.split", "run.task"),
            f'eval.split = "{config.eval.split}" is refused: task {row.name} has '
            f"{', '.join(row.splits)}",
        )
    if row.recalls:
        yield from recall_conflicts(row, config)
    else:
        yield from text_conflicts(row, config) if row.is_text else picture_conflicts(row, config)


def text_conflicts(row: TaskRow, config: RunConfig) -> Iterator[Conflict]:
    """Settings that do not go with a text task."""
    if not config.model.causal:
        yield Conflict(
            ("model.causal", "run.task"),
            f"model.causal = false is refused: task {row.name} writes a text token by token; "
            "leave the key out",
        )
    data = config.data
    if data.source_lang == data.target_lang and not row.grouped:
        yield Conflict(
            ("data.target_lang", "data.source_lang"),
            f'data.target_lang = "{data.target_lang}" is the language of the source too; give '
            "another one",
        )


def recall_conflicts(row: TaskRow, config: RunConfig) -> Iterator[Conflict]:
    """Settings that do not go with recall."""
    data = config.data
    if not config.model.causal:
        yield Conflict(
            ("model.causal", "run.task"),
            f"model.causal = false is refused: task {row.name} answers from what came before; "
            "leave the key out",
        )
    if config.train.batch_tokens:
        yield without_texts(row, config)
    needed = max(2 * data.n_pairs + 1, SMALLEST_RECALL_VOCABULARY)
    if data.vocab_size < needed:
        yield Conflict(
            ("data.vocab_size", "data.n_pairs", "run.task"),
            f"data.vocab_size = {data.vocab_size} is too small: {data.n_pairs} pairs of task "
            f"{row.name} need as many keys and values and a blank; give {needed} or more",
        )
    if data.recall_length < 3 * data.n_pairs:
        yield Conflict(
            ("data.sequence_length", "data.n_pairs"),
            f"data.sequence_length = {data.sequence_length} is too short: {data.n_pairs} pairs and "
            f"their queries take {3 * data.n_pairs} tokens; give that or more, or 0",
        )


def without_texts(row: TaskRow, config: RunConfig) -> Conflict:
    """A limit of tokens where samples are no texts."""
    return Conflict(
        ("train.batch_tokens", "run.task"),
        f"train.batch_tokens = {config.train.batch_tokens} has no effect with task {row.name}, "
        "which has no texts: leave it out, and give train.batch_size",
    )


def picture_conflicts(row: TaskRow, config: RunConfig) -> Iterator[Conflict]:
    """Settings that do not go with a task on pictures."""
    model, data = config.model, config.data
    if config.train.batch_tokens:
        yield without_texts(row, config)
    if row.image_size not in (0, data.image_size):
        yield Conflict(
            ("data.image_size", "run.task"),
            f"data.image_size = {data.image_size} is refused: the pictures of task {row.name} "
            f"have {row.image_size} x {row.image_size} pixels; leave the key out",
        )
    elif data.image_size % model.patch_size:
        yield Conflict(
            ("data.image_size", "model.patch_size"),
            f"data.image_size = {data.image_size} cannot be cut into patches of "
            f"model.patch_size = {model.patch_size}: give a divisor of {data.image_size}, such as "
            f"{divisor(data.image_size, model.patch_size)}",
        )
    elif row.reconstructs and data.image_size == model.patch_size and 0 < data.mask_ratio < 1:
        yield Conflict(
            ("model.patch_size", "data.mask_ratio"),
            f"model.patch_size = {model.patch_size} leaves one patch a picture, which cannot be "
            f"hidden and visible at once: give a smaller divisor of {data.image_size}",
        )


def known_task(name: str) -> TaskRow | None:
    """The row of a task, or None when there is no such task (that is reported elsewhere)."""
    try:
        return task_row(name)
    except UsageError:
        return None


def multiples(value: int, step: int) -> str:
    """The multiples of a step on both sides of a value, as text."""
    below = value // step * step
    return f"{below} or {below + step}" if below else str(step)


def divisor(value: int, wanted: int) -> int:
    """The divisor of a value that is closest to a wanted one."""
    return min((d for d in range(1, value + 1) if value % d == 0), key=lambda d: abs(d - wanted))


def damcha_conflicts(options: DamchaOptions) -> Iterator[Conflict]:
    """Options of DAMCHA that would have no effect: refused, lest someone compares them.

    Args:
        options: the options with those of the preset applied.

    Yields:
        One conflict at a time.
    """
    structure = f'structure = "{options.structure}"'
    if options.rank and options.structure not in ("psd", "low_rank"):
        yield no_effect("rank", options.rank, structure, 'structure = "psd" or "low_rank"')
    if options.output != "head" and options.structure != "full":
        yield no_effect("output", options.output, structure, 'structure = "full"')
    default = DamchaOptions.model_fields["mlp_hidden"].default
    if options.source == "static" and options.mlp_hidden != default:
        yield no_effect(
            "mlp_hidden", options.mlp_hidden, 'source = "static"', 'source = "adaptive"'
        )
    default = DamchaOptions.model_fields["body_lr_scale"].default
    # 1 is what a static run of version 0.1 is read with, and changes nothing anywhere.
    if options.source == "static" and options.body_lr_scale not in (default, 1.0):
        yield no_effect(
            "body_lr_scale", options.body_lr_scale, 'source = "static"', 'source = "adaptive"'
        )
    if options.source == "static" and options.refresh != "token":
        yield no_effect("refresh", options.refresh, 'source = "static"', 'source = "adaptive"')
    ratio = DamchaOptions.model_fields["refresh_ratio"].default
    if options.refresh != "geometric" and options.refresh_ratio != ratio:
        refresh = f"refresh = {shown(options.refresh)}"
        yield no_effect("refresh_ratio", options.refresh_ratio, refresh, 'refresh = "geometric"')


def no_effect(key: str, value: Any, given: str, needed: str) -> Conflict:
    """An option that another option leaves without effect."""
    other = given.partition(" ")[0]
    return Conflict(
        (f"attention.{key}", f"attention.{other}", "attention.name"),
        f"attention.{key} = {shown(value)} has no effect with attention.{given}: leave it out, or "
        f"choose attention.{needed}",
    )


def training_problems(config: RunConfig) -> list[str]:
    """What keeps valid settings from being trained; evaluation may still use them.

    Args:
        config: settings as resolved.

    Returns:
        One plain line for each problem, none when the settings can be trained.
    """
    problems = []
    if task_row(config.run.task).reconstructs and config.data.mask_ratio == 0:
        problems.append(
            "data.mask_ratio = 0 hides no patch, so there is nothing to learn: give a number "
            "above 0 and at most 1 (eval and reconstruct accept 0)"
        )
    return problems


def notices(config: RunConfig) -> list[str]:
    """Settings that are accepted and do less than they seem to.

    Args:
        config: settings as resolved.

    Returns:
        One plain line for each, for the start of a run.
    """
    lines = []
    options = config.attention.options
    d_head = config.model.d_model // config.model.n_heads
    if (
        isinstance(options, DamchaOptions)
        and options.structure == "low_rank"
        and options.rank >= d_head
    ):
        lines.append(
            f"attention.rank = {options.rank} restricts nothing: low_rank needs a rank below the "
            f"head width {d_head}"
        )
    if (
        isinstance(options, DamchaOptions)
        and options.refresh != "token"
        and not config.model.causal
    ):
        lines.append(
            f"attention.refresh = {shown(options.refresh)} has no effect with model.causal = "
            "false: one metric serves the whole sequence"
        )
    train = config.train
    if 0 < train.horizon_steps <= train.warmup_steps:
        lines.append(
            f"train.warmup_steps {train.warmup_steps} is not shorter than the schedule of "
            f"{train.horizon_steps} steps: the peak rate train.lr will hardly be reached"
        )
    data = config.data
    if task_row(config.run.task).recalls and data.easy_epochs:
        n_pairs, epochs = EASY_PAIRS, data.easy_epochs
        while n_pairs < data.n_pairs:
            n_pairs, epochs = 2 * n_pairs, epochs + 1
        if train.epochs < epochs:
            lines.append(
                f"train.epochs {train.epochs} end before training shows data.n_pairs = "
                f"{data.n_pairs} pairs: with data.easy_epochs = {data.easy_epochs} that takes "
                f"{epochs}"
            )
    reconstructs = task_row(config.run.task).reconstructs
    if reconstructs and train.label_smoothing:
        lines.append("train.label_smoothing has no effect: reconstruction has no labels")
    return lines
