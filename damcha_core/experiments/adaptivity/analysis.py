"""Whether the metrics of a trained run adapt, and whether the scores would miss it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from damcha_core.attention.damcha import DamchaAttention
from damcha_core.config.identity import config_hash
from damcha_core.data.notify import Notify, no_notice
from damcha_core.errors import UsageError
from damcha_core.experiments.adaptivity.attention_watch import AttentionWatch
from damcha_core.experiments.adaptivity.record import layer_records, reported
from damcha_core.experiments.adaptivity.sampled_batches import (
    partners,
    sampled_batches,
    sampled_keys,
)
from damcha_core.experiments.adaptivity.sequence_scores import sequence_scores, swap_record
from damcha_core.train.device import memory_errors
from damcha_core.train.trained_run import TrainedRun

SCHEMA = 1
SAMPLES = 256


def analyse(
    run: TrainedRun,
    split: str = "valid",
    n_samples: int = SAMPLES,
    *,
    notify: Notify = no_notice,
) -> dict[str, Any]:
    """Look at the metrics m_i of a trained run over inputs of a split.

    E is the mean over the sequences looked at, ||.|| the Frobenius norm, m_0 the metric that
    init = identity starts from (I; for a rank R below K the projector on the first R features),
    whatever the run started from. A causal layer has a metric for every prefix: looked at are
    those of 2, 4, 8, ... tokens, E_g is the mean over prefixes of one length (otherwise E), and
    every head has

        within  = E ||m_i - E_g m_i||^2, the sum over entries of their variance over inputs,
        between = E ||E_g m_i - E m_i||^2, what the length alone moves (0 unless causal),

        explained_share           = within / (within + between + ||E m_i||^2)
                                  = within / E ||m_i||^2
        explained_share_of_change = within / (within + between + ||E m_i - m_0||^2)
                                  = within / E ||m_i - m_0||^2
        length_share_of_change    = between / E ||m_i - m_0||^2

    with 0 / 0 = 0. The first is how much of the metric is input; it is small where the metric
    stays near m_0. The second is how much of what training changed is input.

    The context swap scores each sequence under the metrics generated from another one (half a
    batch of 32 further on): the contexts are those of the other sequence's own undisturbed pass.
    A text's query of token t gets the metric of the other one's prefix of t tokens (of all of it
    where it has fewer); targets are given, nothing is written, and perplexity stands for the main
    metric. Scores that do not move say that the adaptation is idle.

    Args:
        run: with a DAMCHA attention of an adaptive source, of any structure.
        split: "valid", "train", or what else the task has.
        n_samples: sequences, spread evenly over the split; all of a smaller split.
        notify: told how many sequences are done.

    Returns:
        Plain types: {"schema", "run", "task", "attention", "checkpoint", "step", "seed",
        "config_hash", "split", "sequences", "causal", "layers", "summary", "swap"}. A layer is
        {"layer", "heads"}, a head {"head", the three shares, "input_deviation" (square root of
        within), "mean_norm" ||E m_i||, "change_norm" ||E m_i - m_0||, "symmetric_norm" and
        "antisymmetric_norm" of the two parts of E m_i, "largest_score" (the largest
        |x_i m_i x_i^T| / sqrt(K) of a query and a key it may see), "singular_values" of E m_i,
        "mean_singular_values" (of the single m_i, meant), "mean_metric" E m_i}. For "swap" see
        `swap_record`.

    Raises:
        UsageError: the attention generates no metric from its input, there is no such split, or
            fewer than two sequences.
        DataError: the data set is missing.
        OutOfMemoryError: a batch does not fit.
    """
    require_adaptive(run)
    keys = sampled_keys(run.task, split, n_samples)
    watch = AttentionWatch(run.model)
    own, swapped = sequence_scores(run.task, split), sequence_scores(run.task, split)
    like, done, total = next(run.model.parameters()), 0, sum(map(len, keys))
    with torch.no_grad(), memory_errors():
        for batch in sampled_batches(run.task, split, keys, like):
            with watch.watching(own.n_real(batch)):
                own.update(run.model, batch)
            n_batch = len(batch["ids"])
            with watch.swapped(partners(n_batch)):
                swapped.update(run.model, batch)
            done += n_batch
            notify("looking at metrics", done, total)
    layers = layer_records(watch)
    return {
        "schema": SCHEMA,
        "run": run.folder.path.resolve().name,
        "task": run.stored.run.task,
        "attention": run.stored.attention.name,
        "checkpoint": run.checkpoint,
        "step": run.step,
        "seed": run.stored.run.seed,
        "config_hash": config_hash(run.stored),
        "split": split,
        "sequences": total,
        "causal": run.stored.model.causal,
        "layers": layers,
        "summary": summary(layers),
        "swap": reported(swap_record(own, swapped)),
    }


def require_adaptive(run: TrainedRun) -> None:
    """Refuse a run whose attention generates nothing from its input.

    Raises:
        UsageError: there is no DAMCHA layer, or its metrics are parameters.
    """
    layers = damcha_layers(run.model)
    name = run.stored.attention.name
    if not layers:
        raise UsageError(
            f"{run.folder.path}: trained with attention {name}, which generates no metrics; "
            "their adaptivity can be looked at in a run of damcha"
        )
    if any(layer.generator.is_static for layer in layers):
        raise UsageError(
            f"{run.folder.path}: the metrics of attention {name} are parameters (source static), "
            "the same for every input: there is no adaptation to look at"
        )


def damcha_layers(model: nn.Module) -> list[DamchaAttention]:
    """The DAMCHA layers of a model, first layer first."""
    return [part for part in model.modules() if isinstance(part, DamchaAttention)]


def summary(layers: list[dict[str, Any]]) -> dict[str, Any]:
    """The shares meant over all heads and the largest of them, and the largest score."""
    heads = [head for layer in layers for head in layer["heads"]]
    record: dict[str, Any] = {}
    for name in ("explained_share", "explained_share_of_change", "length_share_of_change"):
        values = [head[name] for head in heads]
        record[name] = {"mean": sum(values) / len(values), "largest": max(values)}
    record["largest_score"] = max(head["largest_score"] for head in heads)
    plain: dict[str, Any] = reported(record)
    return plain
