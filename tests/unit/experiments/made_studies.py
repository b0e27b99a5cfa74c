"""Study folders as the suite's runner leaves them, made of numbers without training."""

from __future__ import annotations

import json
import random
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from damcha_core.catalog.tasks import task_row
from damcha_core.config.document import to_toml
from damcha_core.config.identity import config_hash
from damcha_core.evaluate.text.sacrebleu_scores import sacrebleu_score
from damcha_core.experiments.cell import Cell

N_PICTURES = 40
N_TEXTS = 24
WORDS = ("a", "big", "dog", "sees", "the", "small", "red", "house", "and", "runs", "far", "away")
IMAGE_FACTS = {
    "channels": 1,
    "image_size": 8,
    "class_names": [str(digit) for digit in range(10)],
    "samples": {"train": 1297, "valid": 250, "test": 250},
}
TEXT_FACTS = {
    "vocab_size": 500,
    "samples": {"train": 900, "valid": 50, "test": N_TEXTS},
    "content": {},
    "origin": {"cldr": "48"},
}


@dataclass
class MadeStudy:
    """A study folder under construction.

    Attributes:
        folder: where.
        tasks: of the suite.
        attentions: of the suite.
        seeds: number of seeds.
        grid: of the suite.
        seconds: wall time of every run, so that two studies may differ in nothing else.
    """

    folder: Path
    tasks: Sequence[str] = ("digits-cls",)
    attentions: Sequence[str] = ("mha", "damcha")
    seeds: int = 1
    grid: dict[str, list[Any]] = field(default_factory=dict)
    seconds: float = 12.5

    def __post_init__(self) -> None:
        """Write suite.toml."""
        (self.folder / "cells").mkdir(parents=True)
        suite: dict[str, Any] = {
            "summary": "made for tests",
            "tasks": list(self.tasks),
            "attentions": list(self.attentions),
            "study": {
                "name": "made",
                "seeds": self.seeds,
                "budget": "recipe",
                "builtin": True,
                "set": {},
            },
        }
        if self.grid:
            suite["grid"] = self.grid
        (self.folder / "suite.toml").write_text(tomli_w.dumps(suite), encoding="utf-8")

    def finish(
        self,
        name: str,
        task: str,
        attention: str,
        *,
        seed: int = 0,
        skill: float = 0.5,
        **more: Any,
    ) -> Path:
        """A run that is done.

        Args:
            name: of the cell.
            task: digits, digits-cls, cldr or recall.
            attention: name.
            seed: of the run.
            skill: 0 to 1, how good it is.
            more: settings of the cell by dotted key with __ for the dot.
        """
        settings = {key.replace("__", "."): value for key, value in more.items()}
        run = self.folder / name
        (run / "samples").mkdir(parents=True)
        cell = Cell(name, task, attention, seed, settings)
        config = cell.config(run)
        (run / "run.toml").write_text(to_toml(config), encoding="utf-8")
        is_text = task_row(task).is_text
        write_json(run / "facts.json", TEXT_FACTS if is_text else IMAGE_FACTS)
        items = text_items(seed, skill) if is_text else picture_items(task, seed, skill)
        lines = "".join(json.dumps(item) + "\n" for item in items)
        (run / "samples" / "test.jsonl").write_text(lines, encoding="utf-8")
        metrics = metrics_of(task, items)
        record = {
            "schema": 1,
            "run": name,
            "task": task,
            "attention": attention,
            "split": "test",
            "step": 20,
            "seed": seed,
            "config_hash": config_hash(config),
            "metrics": metrics,
            "floors": {"guess": {key: {**m, "value": 0.1} for key, m in metrics.items()}},
            "details": {"signatures": {"bleu": "nrefs:1|case:mixed"}} if is_text else {},
        }
        write_json(run / "test.json", record)
        further = {"parameters": 513284, "steps": 20, "epochs": 2, "ended": "epochs"}
        further |= {"seconds": self.seconds, "resumed_from": ""}
        write_json(run / "result.json", {**record, "split": "valid", **further})
        write_json(run / "environment.json", {"starts": [{"device": "cpu", "threads": 1}]})
        main = next(iter(metrics))
        curve = "".join(curve_lines(main, metrics[main]["value"], self.seconds))
        (run / "metrics.jsonl").write_text(curve, encoding="utf-8")
        self.record(cell, "done", identity=config_hash(config))
        return run

    def end(self, name: str, task: str, attention: str, state: str, reason: str, seed: int = 0):
        """A run that failed or diverged."""
        (self.folder / name).mkdir(exist_ok=True)
        self.record(Cell(name, task, attention, seed), state, reason=reason, exit_code=1)

    def record(
        self, cell: Cell, state: str, *, identity: str = "", reason: str = "", exit_code: int = 0
    ) -> None:
        """The record of a cell."""
        record = {
            "schema": 1,
            "cell": cell.id,
            "task": cell.task,
            "attention": cell.attention,
            "seed": cell.seed,
            "settings": dict(cell.settings),
            "command": shlex.join(cell.command(self.folder / cell.id)),
            "identity": {"config_hash": identity, "data": "d", "code": "c"},
            "state": state,
            "reason": reason,
            "exit_code": exit_code,
            "seconds": self.seconds,
        }
        write_json(self.folder / "cells" / f"{cell.id}.json", record)


def write_json(path: Path, value: Any) -> None:
    """Plain types as a file."""
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def picture_items(task: str, seed: int, skill: float) -> list[dict[str, Any]]:
    """Lines of samples/test.jsonl of a task on images, or of recall."""
    draw = random.Random(f"{task} {seed} {skill}")
    items = []
    for picture in range(N_PICTURES):
        if task == "digits-cls":
            right = float(draw.random() < skill)
            scores = {"top1": right, "top5": max(right, 1.0), "loss": draw.random() + 1 - right}
            items.append({"id": picture, "label": picture % 10, "scores": scores})
            continue
        if task == "recall":
            share = sum(draw.random() < skill for _ in range(4)) / 4
            items.append({"id": picture, "scores": {"accuracy": share, "loss": 1.5 - share}})
            continue
        error, hidden = (1 - skill) * (1 + draw.random()), 32
        scores = {
            "masked_mse": error / hidden,
            "masked_mean_absolute_error": 2 * error / hidden,
            "masked_psnr": 10 + skill,
            "psnr": 12 + skill * draw.random(),
            "ssim": skill,
        }
        sums = {
            "masked_squared_error": error,
            "masked_absolute_error": 2 * error,
            "hidden_values": hidden,
        }
        items.append({"id": picture, "scores": scores, "sums": sums})
    return items


def text_items(seed: int, skill: float) -> list[dict[str, Any]]:
    """Lines of samples/test.jsonl of a translation task."""
    texts, draw = random.Random("texts"), random.Random(f"{seed} {skill}")
    items = []
    for place in range(N_TEXTS):
        reference = [texts.choice(WORDS) for _ in range(8)]
        written = [word if draw.random() < skill else draw.choice(WORDS) for word in reference]
        scores = {"bleu": 1.0, "chrf": 1.0, "ter": 1.0, "perplexity": 2.0 + draw.random()}
        items.append(
            {
                "source": f"text {place}",
                "references": [" ".join(reference)],
                "hypothesis": " ".join(written),
                "scores": scores,
            }
        )
    return items


def metrics_of(task: str, items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What test.json says of items."""
    metrics = {}
    for spec in task_row(task).metrics:
        if spec.name in ("bleu", "chrf", "ter"):
            hypotheses = [item["hypothesis"] for item in items]
            references = [item["references"] for item in items]
            value = sacrebleu_score(spec.name, hypotheses, references).value
        else:
            values = [item["scores"][spec.name] for item in items]
            value = sum(values) / len(values)
        if spec.name == "perplexity":
            value = 2.5  # weighs by tokens, which the items do not tell
        metrics[spec.name] = {
            "value": value,
            "unit": spec.unit,
            "n": len(items),
            "better": spec.better,
        }
    return metrics


def curve_lines(main: str, value: float, seconds: float) -> list[str]:
    """A metrics.jsonl of two epochs."""
    lines = []
    for step in range(1, 21):
        line = {"step": step, "epoch": 1 + (step > 10), "split": "train", "loss": 2.0 / step}
        lines.append({**line, "lr": 1e-3, "grad_norm": 1.0, "samples": 8, "seconds": seconds / 20})
        if step % 10 == 0:
            point = {"step": step, "epoch": step // 10, "split": "valid", "loss": 3.0 / step}
            lines.append({**point, "seconds": seconds, "metrics": {main: value * step / 20}})
    return [json.dumps(line) + "\n" for line in lines]


def adaptivity_record(n_layers: int = 2, n_heads: int = 3, width: int = 4) -> dict[str, Any]:
    """An adaptivity.json."""

    def head(layer: int, place: int) -> dict[str, Any]:
        entry = layer + place / 10
        return {
            "head": place,
            "explained_share": 0.05 * place,
            "explained_share_of_change": 0.1 * place,
            "symmetric_norm": 2.0,
            "antisymmetric_norm": 1.0,
            "singular_values": [3.0 + place, 0.5],
            "input_deviation": entry / 7,
            "mean_norm": 1 + entry,
            "change_norm": entry,
            "mean_metric": [
                [entry * (r == c) + 0.1 * r for c in range(width)] for r in range(width)
            ],
        }

    layers = [
        {"layer": layer, "heads": [head(layer, place) for place in range(n_heads)]}
        for layer in range(n_layers)
    ]
    return {
        "schema": 1,
        "layers": layers,
        "summary": {"explained_share": {"mean": 0.25, "largest": 0.4}, "largest_score": 3.5},
        "swap": {
            "metric": {"name": "top1", "unit": "fraction", "own": 0.9, "swapped": 0.8},
            "loss": {"own": 0.5, "swapped": 0.7, "difference": 0.2, "standard_error": 0.01},
        },
    }
