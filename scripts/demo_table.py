"""The one table of `make demo`: runs side by side, with the scores that need no learning.

    python scripts/demo_table.py RUN [RUN ...]

Each run folder holds result.json, which `damcha train` wrote, and test.json, which is the output
of `damcha eval RUN --split test --json`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from damcha_cli.output import number, print_pairs, print_table

COLUMNS = ("attention", "parameters", "masked MSE", "PSNR (dB)", "SSIM", "seconds")
METRICS = ("masked_mse", "psnr", "ssim")
FLOORS = {
    "mean_training_picture": "floor: mean training picture",
    "visible_mean": "floor: mean of the visible pixels",
    "harmonic_fill": "floor: harmonic fill",
}
GRID = Path("samples", "reconstruction.png")


def scores(metrics: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The three metrics of the table, as text."""
    return [number(metrics[name]["value"]) for name in METRICS]


def table_rows(folders: Sequence[Path]) -> list[list[str]]:
    """One row a run, then one a floor (the floors are the same for all runs)."""
    rows = []
    floors: Mapping[str, Any] = {}
    for folder in folders:
        trained = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        tested = json.loads((folder / "test.json").read_text(encoding="utf-8"))
        rows.append(
            [
                trained["attention"],
                f"{trained['parameters']:,}",
                *scores(tested["metrics"]),
                f"{trained['seconds']:.0f}",
            ]
        )
        floors = tested["floors"]
    return rows + [[FLOORS[name], "-", *scores(floors[name]), "-"] for name in FLOORS]


def main(folders: Sequence[Path]) -> None:
    """Print the table and where the pictures are."""
    print_table("test split, hidden patches restored", COLUMNS, table_rows(folders))
    grids = [str(folder / GRID) for folder in folders if (folder / GRID).is_file()]
    print_pairs(
        {
            "masked MSE": "lower is better; PSNR and SSIM: higher is better",
            "seconds": "training and validation together",
            **({"pictures": ", ".join(grids)} if grids else {}),
        }
    )


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
