"""The tasks that a run can train, and the metrics that score them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from damcha_core.catalog.names import unknown_name
from damcha_core.errors import UsageError


@dataclass(frozen=True)
class MetricSpec:
    """A metric's name in reports, its unit, and which way is better."""

    name: str
    unit: str
    better: Literal["lower", "higher"]


@dataclass(frozen=True, kw_only=True)
class TaskRow:
    """One task that a run file can name.

    Args:
        name: the value of `run.task`.
        summary: one line for lists and for the documentation.
        builder: dotted path of the class that owns model, batch and loss.
        evaluator: dotted path of the class that accumulates the metrics.
        data: dotted path of the function that loads the data.
        metrics: what is reported, the main one first.
        builtin: whether the data come with the package.
        instead: the task that runs today on built-in data.
        image_size: side in pixels that the data fix; 0: the run file chooses.
        reconstructs: whether hidden patches are what the task predicts.
        is_text: whether a text is generated from a text.
        recalls: whether sequences are drawn that ask for what they showed.
        grouped: whether all targets of a source are the references of one answer.
        tuned_by: name of the metric that chooses a learning rate; "": the main one.
        mean_tokens: typical tokens of a text, source, target and marks; 0 where the number of
            tokens follows from the settings (patches of a picture, sequences of recall).
        splits: the parts that the data can have.
    """

    name: str
    summary: str
    builder: str
    evaluator: str
    data: str
    metrics: tuple[MetricSpec, ...]
    builtin: bool
    instead: str
    image_size: int = 0
    reconstructs: bool = False
    is_text: bool = False
    recalls: bool = False
    grouped: bool = False
    tuned_by: str = ""
    mean_tokens: int = 0
    splits: tuple[str, ...] = ("train", "valid", "test")

    @property
    def main_metric(self) -> MetricSpec:
        """The metric that chooses the best checkpoint."""
        return self.metrics[0]

    @property
    def tuning_metric(self) -> MetricSpec:
        """The metric that chooses a learning rate.

        Rates are compared after short runs, whose texts are too poor for their scores to say much;
        perplexity already tells them apart.
        """
        if not self.tuned_by:
            return self.main_metric
        return next(metric for metric in self.metrics if metric.name == self.tuned_by)

    @property
    def has_vocabulary(self) -> bool:
        """Whether a sample is a sequence of token numbers, read by a causal language model."""
        return self.is_text or self.recalls


RECONSTRUCTION_METRICS = (
    MetricSpec("masked_mse", "squared intensity in [0,1]", "lower"),
    MetricSpec("masked_mean_absolute_error", "intensity in [0,1]", "lower"),
    MetricSpec("masked_psnr", "dB", "higher"),
    MetricSpec("psnr", "dB", "higher"),
    MetricSpec("ssim", "index in [-1,1]", "higher"),
)
CLASSIFICATION_METRICS = (
    MetricSpec("top1", "fraction", "higher"),
    MetricSpec("top5", "fraction", "higher"),
    MetricSpec("loss", "nats", "lower"),
)

TRANSLATION_METRICS = (
    MetricSpec("bleu", "0 to 100", "higher"),
    MetricSpec("chrf", "0 to 100", "higher"),
    MetricSpec("ter", "edits per 100 words", "lower"),
    MetricSpec("perplexity", "per target token", "lower"),
)
CONCEPT_METRICS = (
    MetricSpec("bleu4", "coco 0 to 1", "higher"),
    MetricSpec("cider", "coco 0 to 10", "higher"),
    MetricSpec("coverage", "share of concepts", "higher"),
    MetricSpec("rouge_l", "coco 0 to 1", "higher"),
    MetricSpec("meteor", "NLTK 0 to 1", "higher"),
    MetricSpec("perplexity", "per target token", "lower"),
)

RECALL_METRICS = (
    MetricSpec("accuracy", "fraction", "higher"),
    MetricSpec("loss", "nats", "lower"),
)

# name of the data set, loader, pictures, built in, side in pixels that the data fix
DATA_SETS = (
    ("digits", "digits:load_digits", "scanned digits of 8 x 8 pixels", True, 8),
    ("cifar10", "cifar10:load_cifar10", "CIFAR-10 photographs of 32 x 32 pixels", False, 32),
    ("images", "folder:load_folder", "the pictures of a folder", False, 0),
)


def reconstruction_rows() -> tuple[TaskRow, ...]:
    """Masked image reconstruction, one row a data set."""
    return tuple(
        TaskRow(
            name=name,
            summary=f"restore hidden patches of {pictures}",
            builder="damcha_core.tasks.reconstruction:ReconstructionTask",
            evaluator="damcha_core.evaluate.reconstruction:ReconstructionEvaluator",
            data=f"damcha_core.data.{loader}",
            metrics=RECONSTRUCTION_METRICS,
            builtin=builtin,
            instead="digits",
            image_size=image_size,
            reconstructs=True,
        )
        for name, loader, pictures, builtin, image_size in DATA_SETS
    )


def classification_rows() -> tuple[TaskRow, ...]:
    """Image classification with a vision transformer, one row a data set."""
    return tuple(
        TaskRow(
            name=f"{name}-cls",
            summary=f"classify {pictures}",
            builder="damcha_core.tasks.classification:ClassificationTask",
            evaluator="damcha_core.evaluate.classification:ClassificationEvaluator",
            data=f"damcha_core.data.{loader}",
            metrics=CLASSIFICATION_METRICS,
            builtin=builtin,
            instead="digits-cls",
            image_size=image_size,
        )
        for name, loader, pictures, builtin, image_size in DATA_SETS
    )


TEXT = "damcha_core.data.text"


def translation_rows() -> tuple[TaskRow, ...]:
    """Translation, one row a data set."""
    common: dict[str, Any] = {
        "builder": "damcha_core.tasks.text_task:TextTask",
        "evaluator": "damcha_core.evaluate.text.translation:TranslationEvaluator",
        "metrics": TRANSLATION_METRICS,
        "tuned_by": "perplexity",
        "instead": "cldr",
        "is_text": True,
    }
    return (
        TaskRow(
            name="cldr",
            summary="translate dates, numbers, names and lists of CLDR, English to German",
            data=f"{TEXT}.builtin:load_cldr",
            builtin=True,
            mean_tokens=24,
            splits=("train", "valid", "test", "unseen"),
            **common,
        ),
        TaskRow(
            name="wmt",
            summary="translate aligned text files, WMT14 English-German by their default names",
            data=f"{TEXT}.wmt:load_wmt",
            builtin=False,
            mean_tokens=70,
            **common,
        ),
    )


def concept_rows() -> tuple[TaskRow, ...]:
    """Sentences from sets of concepts, one row a data set."""
    common: dict[str, Any] = {
        "builder": "damcha_core.tasks.text_task:TextTask",
        "evaluator": "damcha_core.evaluate.text.concept_to_text:ConceptEvaluator",
        "metrics": CONCEPT_METRICS,
        "tuned_by": "perplexity",
        "instead": "concepts",
        "is_text": True,
        "grouped": True,
    }
    return (
        TaskRow(
            name="concepts",
            summary="make a sentence of given concepts, from a small English grammar",
            data=f"{TEXT}.builtin:load_concepts",
            builtin=True,
            mean_tokens=17,
            **common,
        ),
        TaskRow(
            name="commongen",
            summary="make a sentence of given concepts, CommonGen's files",
            data=f"{TEXT}.commongen:load_commongen",
            builtin=False,
            mean_tokens=21,
            **common,
        ),
    )


def recall_rows() -> tuple[TaskRow, ...]:
    """The built-in diagnostic of look-ups."""
    return (
        TaskRow(
            name="recall",
            summary="look up keys in a list of key-value pairs (MQAR), a diagnostic",
            builder="damcha_core.tasks.recall:RecallTask",
            evaluator="damcha_core.evaluate.recall:RecallEvaluator",
            data="damcha_core.data.recall:recall_split",
            metrics=RECALL_METRICS,
            builtin=True,
            instead="recall",
            recalls=True,
        ),
    )


ROWS = {
    row.name: row
    for row in (
        *reconstruction_rows(),
        *classification_rows(),
        *translation_rows(),
        *concept_rows(),
        *recall_rows(),
    )
}


def task_rows() -> tuple[TaskRow, ...]:
    """All rows, the default task first."""
    return tuple(ROWS.values())


def task_row(name: str) -> TaskRow:
    """The row of a name.

    Args:
        name: the value of `run.task`.

    Returns:
        The row.

    Raises:
        UsageError: there is no such task; the message lists the names.
    """
    try:
        return ROWS[name]
    except KeyError:
        raise UsageError(unknown_name("task", name, ROWS)) from None
