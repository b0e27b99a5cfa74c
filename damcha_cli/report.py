"""What train, eval and reconstruct print at their end."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from damcha_cli.output import duration, print_pairs, print_table, say, score

if TYPE_CHECKING:
    from damcha_core.train.rehearsal import Rehearsal

NAME_WIDTH, UNIT_WIDTH = 13, 9
"""Columns of the score table are this narrow, so that it fits a terminal of 80 columns."""


def print_scores(record: Mapping[str, Any]) -> None:
    """The scores of a record, those of the floors below them, and what the numbers mean.

    Args:
        record: as result.json holds it.
    """
    metrics = record["metrics"]
    floors = [_row(f" {name.replace('_', ' ')}", of) for name, of in record["floors"].items()]
    if floors:
        floors.insert(0, ["floors:", *("" for _ in metrics)])
    meaning = [
        ["unit", *("\n".join(textwrap.wrap(m["unit"], UNIT_WIDTH)) for m in metrics.values())],
        ["better", *(metric["better"] for metric in metrics.values())],
        ["n", *(f"{metric['n']:,}" for metric in metrics.values())],
    ]
    rows = [_row(record["attention"], metrics)]
    if any("interval" in metric for metric in metrics.values()):
        rows += [[" 95 % interval", *(edge(metric, 0, "from ") for metric in metrics.values())]]
        rows += [["", *(edge(metric, 1, "to ") for metric in metrics.values())]]
    columns = ["", *map(heading, metrics)]
    print_table("scores", columns, [*rows, *floors], meaning)
    print_details(record["details"])


def edge(metric: Mapping[str, Any], end: int, word: str) -> str:
    """One end of a metric's interval, empty where it has none."""
    return word + score(metric["interval"][end]) if "interval" in metric else ""


def print_details(details: Mapping[str, Any]) -> None:
    """What a reader of the scores needs to know: how they were made, from what, and what is odd."""
    lines = dict(details.get("signatures", {}))
    if details.get("data"):
        lines["data"] = ", ".join(f"{name} {value}" for name, value in details["data"].items())
    for count, what in (("cut_texts", "cut at their limit"), ("cut_sources", "of a cut source")):
        if details.get(count):
            lines[f"{details[count]:,} of {details['texts']:,} texts"] = what
    if lines:
        say()
        print_pairs(lines)
    for notice in details.get("notices", ()):
        say(f"note: {notice}")


def _row(name: str, scores: Mapping[str, Any]) -> list[str]:
    return [name, *(score(metric["value"]) for metric in scores.values())]


def print_pictures(pictures: list[dict[str, Any]]) -> None:
    """The scores of single pictures.

    Args:
        pictures: as the record of `damcha reconstruct` holds them.
    """
    metrics = [name for name, value in pictures[0].items() if not isinstance(value, str | dict)]
    rows = [
        [picture["name"], *(score(picture[metric]) for metric in metrics)] for picture in pictures
    ]
    print_table("pictures", ["", *map(heading, metrics)], rows)


def heading(name: str) -> str:
    """A metric's name above a column, on several lines where it is long."""
    lines = textwrap.wrap(name.replace("_", "_ "), NAME_WIDTH)
    return "\n".join(line.replace(" ", "") for line in lines)


def print_run(record: Mapping[str, Any], folder: str) -> None:
    """What a trained run came to.

    Args:
        record: its result.json.
        folder: where it lies.
    """
    resumed = record["resumed_from"]
    print_pairs(
        {
            **title(record),
            "run": folder,
            "parameters": f"{record['parameters']:,}",
            "steps": f"{record['steps']:,}, {record['epochs']:,} full epochs",
            "trained for": duration(record["seconds"]),
            "best checkpoint": f"step {record['step']:,}",
            **({"resumed from": resumed} if resumed else {}),
            "ended by": record["ended"] or "train.stop_after_epochs (not complete)",
        }
    )
    say()
    print_scores(record)


def title(record: Mapping[str, Any]) -> dict[str, str]:
    """The first lines of a report."""
    data = "given pictures" if record["split"] == "pictures" else f"{record['split']} split"
    return {"task": f"{record['task']}, {data}", "attention": record["attention"]}


def plan_record(plan: Rehearsal) -> dict[str, Any]:
    """A dry run in plain types."""
    from damcha_core.config.document import to_mapping

    return {
        "config": to_mapping(plan.config),
        "folder": plan.folder,
        "device": plan.device,
        "parameters": plan.parameters,
        "state_bytes": plan.state_bytes,
        "activation_bytes": plan.activation_bytes,
        "steps": plan.steps,
        "loss_of_one_step": plan.loss,
        "step_seconds": plan.step_seconds,
        "estimated_seconds": plan.estimated_seconds,
        "samples": plan.samples,
    }


def print_plan(plan: Rehearsal) -> None:
    """A dry run: the settings as a run file, then what they come to."""
    from damcha_core.config.document import to_toml

    say(to_toml(plan.config))
    print_pairs(
        {
            "run folder": f"{plan.folder} (not created)",
            "device": plan.device,
            "samples": ", ".join(f"{n:,} {split}" for split, n in plan.samples.items()),
            "parameters": f"{plan.parameters:,}",
            "memory": f"{mebibytes(plan.state_bytes)} for weights, gradients and optimiser, "
            f"{mebibytes(plan.activation_bytes)} for the activations of a micro-batch",
            "steps": f"{plan.steps:,}",
            "one real step": f"loss {plan.loss:.6g}, {plan.step_seconds * 1e3:.1f} ms",
            "estimated time": f"{duration(plan.estimated_seconds)}, validation on top",
        }
    )


def mebibytes(count: int) -> str:
    """A number of bytes as a person says it."""
    return f"{count / 2**20:,.1f} MiB"
