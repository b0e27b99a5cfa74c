"""Training and validation loss of variants of one task against steps, as a figure and a CSV.

    python benchmarks/learning_curves.py --out DIR [--task cldr] [--epochs 1] [--set KEY=VALUE]
        [--variant "LABEL: ATTENTION [KEY=VALUE ...]"] [--window 20] [--seed 0]

Every variant is trained by the library, with the same steps, seed and data: the settings of a
variant alone differ. Run folders stay in DIR/runs: a finished one is not trained again, an
interrupted one goes on, one of other settings is refused. The training loss is a running mean over
the last --window steps (fewer at the start); validation losses are as measured, after every epoch.
DIR/curves.csv holds the numbers that are drawn in curves.png and curves.pdf.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from damcha_core.config.identity import config_hash
from damcha_core.config.resolve import resolve
from damcha_core.config.schema import RunConfig
from damcha_core.experiments.cell_state import same_settings
from damcha_core.experiments.export.drawing import COLOURS, MARKERS, drawing, new_figure, written
from damcha_core.train.metrics_log import read_metrics
from damcha_core.train.observer import Observer
from damcha_core.train.run import resume, start
from damcha_core.train.run_folder import RunFolder

VARIANTS = (
    "mha: mha",
    "damcha: damcha",
    "damcha, as in 0.1: damcha attention.init=identity attention.lr_scale=matrix"
    " attention.body_lr_scale=1",
    "damcha-static: damcha-static",
    "damcha-geometric: damcha-geometric",
)
"""What is compared unless variants are named."""
STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (3, 3, 1, 3)))
WIDTH, HEIGHT = 8.0, 3.4
N_MARKERS = 6
"""Markers on a line of the training loss."""


@dataclass(frozen=True)
class Variant:
    """A line of the figure.

    Attributes:
        label: in the legend.
        attention: name of the attention or the control.
        sets: "section.key=value" each, of this variant alone.
    """

    label: str
    attention: str
    sets: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """Name of its run folder."""
        return re.sub(r"[^A-Za-z0-9.-]+", "_", self.label).strip("_")


@dataclass(frozen=True)
class Curve:
    """What a run came to.

    Attributes:
        train: (step, loss, running mean of the loss).
        valid: (step, loss).
    """

    train: list[tuple[int, float, float]]
    valid: list[tuple[int, float]]


def read_variant(text: str) -> Variant:
    """A variant from "LABEL: ATTENTION [KEY=VALUE ...]".

    Raises:
        ValueError: it is not written so.
    """
    label, colon, rest = text.rpartition(": ")
    words = rest.split()
    if not (label.strip() and colon and words) or not all("=" in word for word in words[1:]):
        raise ValueError(f'variant {text!r}: write "LABEL: ATTENTION [KEY=VALUE ...]"')
    return Variant(label.strip(), words[0], tuple(words[1:]))


def settings(
    variant: Variant, out: Path, *, task: str, seed: int, epochs: int, sets: Sequence[str]
) -> RunConfig:
    """Settings of the run of a variant; its own beat those for all."""
    flags: dict[str, object] = {
        "run.task": task,
        "run.seed": seed,
        "run.out": str(out),
        "attention.name": variant.attention,
        "train.epochs": epochs or None,
    }
    return resolve(sets=[*sets, *variant.sets], flags=flags)


def train(config: RunConfig, out: Path) -> None:
    """Train a variant, unless it is trained.

    Raises:
        SystemExit: the folder holds a run of other settings.
    """
    if not (out / "run.toml").exists():
        start(config, Observer())
    elif not same_settings(out / "run.toml", config):
        raise SystemExit(f"{out}: holds a run of other settings; name another --out")
    elif not (out / "result.json").exists():
        resume(out, Observer())


def read_curve(out: Path, window: int) -> Curve:
    """The losses that a run logged.

    Args:
        out: the run folder.
        window: steps of the running mean.
    """
    records = list(read_metrics(RunFolder(out).metrics_file))
    train = [(r["step"], r["loss"]) for r in records if r["split"] == "train"]
    valid = [
        (r["step"], r["loss"]) for r in records if r["split"] == "valid" and r["loss"] is not None
    ]
    means = running_mean([loss for _, loss in train], window)
    return Curve([(s, loss, m) for (s, loss), m in zip(train, means, strict=True)], valid)


def running_mean(values: Sequence[float], window: int) -> list[float]:
    """Mean of each value and those before it, `window` at most."""
    parts = (values[max(0, end - window) : end] for end in range(1, len(values) + 1))
    return [sum(part) / len(part) for part in parts]


def rows(curves: dict[Variant, Curve]) -> Iterator[list[str | int | float]]:
    """The CSV: one row a point that is drawn, the loss of the step beside the running mean."""
    yield ["label", "attention", "settings", "split", "step", "loss", "running_mean"]
    for variant, curve in curves.items():
        own: list[str | int | float] = [variant.label, variant.attention, " ".join(variant.sets)]
        for step, loss, mean in curve.train:
            yield [*own, "train", step, loss, mean]
        for step, loss in curve.valid:
            yield [*own, "valid", step, loss, ""]


def figure_files(curves: dict[Variant, Curve], title: str, window: int) -> dict[str, bytes]:
    """The figure by file ending: training loss to the left, validation loss to the right."""
    with drawing():
        figure = new_figure(WIDTH, HEIGHT)
        left, right = figure.subplots(1, 2)
        styles = itertools.cycle(zip(COLOURS[: len(STYLES)], STYLES, MARKERS, strict=False))
        looks = enumerate(zip(curves.items(), styles, strict=False))
        for place, ((variant, curve), (shade, style, sign)) in looks:
            gap = max(1, len(curve.train) // N_MARKERS)
            first = gap * place // len(curves)  # lines that lie on each other show all markers
            look = {"color": shade, "linestyle": style, "marker": sign, "markersize": 4}
            left.plot(
                [step for step, _, _ in curve.train],
                [mean for _, _, mean in curve.train],
                **look,
                markevery=(first, gap),
                linewidth=1.2,
                label=variant.label,
            )
            right.plot(
                [step for step, _ in curve.valid],
                [loss for _, loss in curve.valid],
                **look,
                linewidth=1.2,
            )
        left.set_title(f"training loss, running mean over {window} steps")
        right.set_title("validation loss")
        for axes in (left, right):
            axes.set_xlabel("steps")
        figure.suptitle(title)
        handles, labels = left.get_legend_handles_labels()
        # Long dashes are told apart in a legend only where it shows some length of them.
        figure.legend(handles, labels, loc="outside lower center", ncols=3, handlelength=4)
        return written(figure)


def main(given: Sequence[str] | None = None) -> None:
    """Train what is not trained, and draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--task", default="cldr")
    parser.add_argument("--epochs", type=int, default=0, help="0: those of the recipe")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--window", type=int, default=20)
    parser.add_argument("--set", action="append", default=[], dest="sets", metavar="KEY=VALUE")
    parser.add_argument("--variant", action="append", help="repeatable; default: see VARIANTS")
    arguments = parser.parse_args(given)
    try:
        variants = [read_variant(text) for text in arguments.variant or VARIANTS]
    except ValueError as error:
        parser.error(str(error))
    if len({variant.folder for variant in variants}) < len(variants) or arguments.window < 1:
        parser.error("give every variant a label of its own, and a window of at least 1")
    places = {variant: arguments.out / "runs" / variant.folder for variant in variants}
    configs = {
        variant: settings(
            variant,
            place,
            task=arguments.task,
            seed=arguments.seed,
            epochs=arguments.epochs,
            sets=arguments.sets,
        )
        for variant, place in places.items()
    }
    for variant, place in places.items():
        print(f"{variant.label}: {place}, settings {config_hash(configs[variant])[:12]}")
        train(configs[variant], place)
    curves = {variant: read_curve(place, arguments.window) for variant, place in places.items()}
    files = figure_files(curves, f"{arguments.task}, seed {arguments.seed}", arguments.window)
    for ending, content in files.items():
        (arguments.out / f"curves.{ending}").write_bytes(content)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows(curves))
    (arguments.out / "curves.csv").write_text(text.getvalue(), encoding="utf-8")
    print(f"{arguments.out}: curves.png, curves.pdf, curves.csv")


if __name__ == "__main__":
    main()
