"""adaptivity.json in the run folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from damcha_core.evaluate.evaluator import reported_value
from damcha_core.experiments.adaptivity.attention_watch import AttentionWatch
from damcha_core.experiments.adaptivity.metric_moments import MetricMoments, square_norms
from damcha_core.files import replace_json

ADAPTIVITY_FILE = "adaptivity.json"
MATRIX_DIGITS = 6
"""Significant digits of the entries of a mean metric, which is for pictures of it."""


def store(run_folder: Path, record: Mapping[str, Any]) -> Path:
    """Write the record of `analyse` into a run folder.

    Args:
        run_folder: of the run that was analysed.
        record: plain types.

    Returns:
        The file.

    Raises:
        DiskError: it cannot be written.
    """
    path = run_folder / ADAPTIVITY_FILE
    replace_json(path, dict(record))
    return path


def reported(value: Any) -> Any:
    """Plain types with every float as `reported_value` states it."""
    if isinstance(value, dict):
        return {key: reported(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [reported(entry) for entry in value]
    return reported_value(value) if isinstance(value, float) else value


def layer_records(watch: AttentionWatch) -> list[dict[str, Any]]:
    """What was seen of each layer, head by head; see `analyse`."""
    return [
        {
            "layer": place,
            "heads": head_records(
                watch.moments[place], start_metrics(watch, place), watch.largest_score[place]
            ),
        }
        for place in range(len(watch.layers))
    ]


def start_metrics(watch: AttentionWatch, place: int) -> Tensor:
    """The metrics (H, K, K) that a layer with init = identity starts from."""
    return watch.layers[place].generator.identity_metrics().cpu().double()


def head_records(
    moments: MetricMoments, start_HKK: Tensor, largest_score_H: Tensor
) -> list[dict[str, Any]]:
    """The numbers of one layer, head by head."""
    mean_HKK = moments.mean
    within_H, between_H = moments.within(), moments.between()
    norm_H, change_H = square_norms(mean_HKK), square_norms(mean_HKK - start_HKK)
    moved_H = within_H + between_H
    columns: dict[str, Tensor] = {
        "explained_share": share(within_H, moved_H + norm_H),
        "explained_share_of_change": share(within_H, moved_H + change_H),
        "length_share_of_change": share(between_H, moved_H + change_H),
        "input_deviation": within_H.sqrt(),
        "mean_norm": norm_H.sqrt(),
        "change_norm": change_H.sqrt(),
        "symmetric_norm": square_norms((mean_HKK + mean_HKK.mT) / 2).sqrt(),
        "antisymmetric_norm": square_norms((mean_HKK - mean_HKK.mT) / 2).sqrt(),
        "largest_score": largest_score_H,
        "singular_values": singular_values(mean_HKK),
        "mean_singular_values": moments.mean_singular_values,
    }
    rows = {name: reported(column.tolist()) for name, column in columns.items()}
    return [
        {
            "head": head,
            **{name: row[head] for name, row in rows.items()},
            "mean_metric": [
                [float(f"{entry:.{MATRIX_DIGITS}g}") for entry in line] for line in metric_KK
            ],
        }
        for head, metric_KK in enumerate(mean_HKK.tolist())
    ]


def singular_values(m_HKK: Tensor) -> Tensor:
    """Of each head's matrix, largest first."""
    values_HK: Tensor = torch.linalg.svdvals(m_HKK)
    return values_HK


def share(part_H: Tensor, whole_H: Tensor) -> Tensor:
    """Quotients; nothing of nothing is 0."""
    return (part_H / whole_H).where(whole_H > 0, whole_H.new_zeros(()))
