"""result.json and what `damcha eval --json` prints: one record of scores, one format."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from damcha_core.config.identity import config_hash
from damcha_core.config.schema import RunConfig
from damcha_core.evaluate.evaluator import Evaluation, MetricValue, reported_value

SCHEMA = 1


def result_record(
    config: RunConfig, evaluation: Evaluation, *, run: str, step: int
) -> dict[str, Any]:
    """The record of an evaluation.

    Args:
        config: settings the run was trained under; config_hash says which run it is.
        evaluation: its scores.
        run: name of the run folder.
        step: step of the checkpoint that was scored.

    Returns:
        {schema, run, task, attention, split, step, seed, config_hash, metrics, floors, details};
        each metric is {value, unit, n, better}.
    """
    return {
        "schema": SCHEMA,
        "run": run,
        "task": config.run.task,
        "attention": config.attention.name,
        "split": evaluation.split,
        "step": step,
        "seed": config.run.seed,
        "config_hash": config_hash(config),
        "metrics": _plain(evaluation.metrics),
        "floors": {name: _plain(scores) for name, scores in evaluation.floors.items()},
        "details": dict(evaluation.details),
    }


def finite_or_none(value: float | None) -> float | None:
    """A score as JSON can hold it: nan and the infinities become None (null)."""
    return value if value is not None and math.isfinite(value) else None


def _plain(metrics: Mapping[str, MetricValue]) -> dict[str, Any]:
    return {
        name: {**asdict(metric), "value": reported_value(metric.value)}
        for name, metric in metrics.items()
    }
