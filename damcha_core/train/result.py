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
    config: RunConfig, evaluation: Evaluation, *, run: str, step: int, origin: Mapping[str, str]
) -> dict[str, Any]:
    """The record of an evaluation.

    Args:
        config: settings the run was trained under; config_hash says which run it is.
        evaluation: its scores.
        run: name of the run folder.
        step: step of the checkpoint that was scored.
        origin: what the data were made from, where a score depends on it.

    Returns:
        {schema, run, task, attention, split, step, seed, config_hash, metrics, floors, details};
        each metric is {value, unit, n, better}, with its interval where there is one; the details
        hold the origin of the data, if any.
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
        "details": {**evaluation.details, **({"data": dict(origin)} if origin else {})},
    }


def finite_or_none(value: float | None) -> float | None:
    """A score as JSON can hold it: nan and the infinities become None (null)."""
    return value if value is not None and math.isfinite(value) else None


def _plain_metric(metric: MetricValue) -> dict[str, Any]:
    record = {**asdict(metric), "value": reported_value(metric.value)}
    interval = record.pop("interval")
    if interval is not None:
        record["interval"] = [reported_value(end) for end in interval]
    return record


def _plain(metrics: Mapping[str, MetricValue]) -> dict[str, Any]:
    return {name: _plain_metric(metric) for name, metric in metrics.items()}
