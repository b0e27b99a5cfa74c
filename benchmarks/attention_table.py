"""Size, cost, speed and score of every attention, preset and control, in one process.

    python benchmarks/attention_table.py [--epochs 2] [--repeats 8] [--json FILE]

For each task it trains every name for some epochs, as `damcha train --task TASK --attention NAME
--epochs N` does, and prints a line each: parameters of the model, multiply-adds a token of a
forward pass, seconds a training step relative to mha, and the main metric on the validation split.
Two epochs show that a model learns, not how good it is.

Steps are timed apart from these runs: all names in turns, so that a change in the machine's speed
hits all of them, by the CPU time of one thread. The ratio is the median over the turns of time by
time of mha in the same turn.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from damcha_core.catalog.run_attentions import attention_names
from damcha_core.catalog.tasks import task_row
from damcha_core.config.controls import as_built
from damcha_core.config.model_size import mean_tokens, model_multiply_adds, model_parameters
from damcha_core.config.resolve import resolve
from damcha_core.config.schema import RunConfig
from damcha_core.data.loader import make_loader
from damcha_core.tasks.build import build_task
from damcha_core.train.observer import Observer
from damcha_core.train.run import build_learner, start

STEPS = 5
"""Steps of one measurement."""
BASE = "mha"
HEADINGS = ("attention", "parameters", "multiply-adds a token", "time a step", "score")


def settings(task: str, name: str, **changes: object) -> RunConfig:
    """Settings of a run as the command line makes them."""
    flags: dict[str, object] = {"run.task": task, "attention.name": name, "run.device": "cpu"}
    return resolve(flags={**flags, **changes})


def trained(task: str, name: str, epochs: int, seed: int) -> dict[str, Any]:
    """Train in a folder of its own and score: parameters, multiply-adds and the main metric."""
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "run")
        changes = {"run.out": out, "run.seed": seed, "train.epochs": epochs}
        config = settings(task, name, **changes)
        started = time.process_time()
        outcome = start(config, Observer())
        seconds = time.process_time() - started
    facts = build_task(config).facts
    sizes = {"channels": facts.channels, "n_classes": len(facts.class_names)}
    built = as_built(config)
    assert outcome.result["parameters"] == model_parameters(built, **sizes)
    return {
        "parameters": outcome.result["parameters"],
        "multiply_adds_per_token": model_multiply_adds(built, **sizes) / mean_tokens(config),
        "score": outcome.result["metrics"][task_row(task).main_metric.name]["value"],
        "cpu_seconds_of_the_run": seconds,
    }


def steps_of(task_name: str, name: str) -> Callable[[], None]:
    """STEPS training steps on batches that are ready."""
    config = settings(task_name, name, **{"train.horizon_steps": 10_000})
    task = build_task(config)
    learner = build_learner(config, task, torch.device("cpu"))
    keys = task.training_batches(0, 0)[:STEPS]
    batches = list(make_loader(task.dataset("train", training=True), keys, 0))
    step = 0

    def run() -> None:
        nonlocal step
        for batch in batches:
            step += 1
            learner.update([batch], step=step, dropout_seed=step)

    return run


def relative_times(task: str, names: Sequence[str], repeats: int) -> dict[str, dict[str, float]]:
    """CPU seconds a step, measured in turns after a warm-up each, and their ratio to mha."""
    sides = {name: steps_of(task, name) for name in names}
    for run in sides.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(repeats):
        for name, run in sides.items():
            started = time.process_time()
            run()
            seconds[name].append((time.process_time() - started) / STEPS)
    return {
        name: {
            "seconds_per_step": statistics.median(values),
            "relative_to_mha": statistics.median(
                own / base for own, base in zip(values, seconds[BASE], strict=True)
            ),
        }
        for name, values in seconds.items()
    }


def printed(task: str, rows: dict[str, dict[str, float]]) -> None:
    """One Markdown table."""
    metric = task_row(task).main_metric
    print(f"\n{task}: score is {metric.name} on the validation split, {metric.better} is better\n")
    print("| " + " | ".join(HEADINGS) + " |\n" + "| --- " * len(HEADINGS) + "|")
    for name, row in rows.items():
        print(
            f"| {name} | {row['parameters']:,} | {row['multiply_adds_per_token']:,.0f} | "
            f"{row['relative_to_mha']:.2f} | {row['score']:.4f} |"
        )


def main(given: Sequence[str] | None = None) -> None:
    """Train, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default="digits,digits-cls")
    parser.add_argument("--attention", default=",".join(attention_names()))
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(given)
    torch.set_num_threads(1)
    names = list(dict.fromkeys([BASE, *arguments.attention.split(",")]))
    report: dict[str, Any] = {"epochs": arguments.epochs, "seed": arguments.seed, "tasks": {}}
    for task in arguments.tasks.split(","):
        times = relative_times(task, names, arguments.repeats)
        rows = {
            name: {**trained(task, name, arguments.epochs, arguments.seed), **times[name]}
            for name in names
        }
        report["tasks"][task] = rows
        printed(task, rows)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
