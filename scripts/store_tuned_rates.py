"""Ship the choices of a tuning with the package: tuned_rates.toml, from a study's tuning.json.

    python scripts/store_tuned_rates.py TUNING_JSON [--out FILE]

The tuning has to be of built-in tasks and finished: every attention of a task has a choice, from
the same rates. The same tuning gives the same file.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

import damcha_core
from damcha_cli.output import notice

FILE = Path(damcha_core.__file__).parent / "experiments" / "tuned_rates.toml"
HEADER = """\
# Learning rates for `damcha suite run --tuned`, as `damcha suite tune` chose them on valid.
# Written by scripts/store_tuned_rates.py; cells are by task/attention, scores by learning rate.

"""
KEYS = ("schema", "code", "suite", "builtin", "split", "seed", "budget", "grids")


def rates_text(record: Mapping[str, Any]) -> str:
    """The content of tuned_rates.toml.

    Args:
        record: of a tuning.

    Raises:
        ValueError: it is not finished, not of built-in tasks, or not the same for all attentions.
    """
    missing = [key for key in (*KEYS, "cells") if key not in record]
    if missing:
        raise ValueError(f"no {', '.join(missing)} in it; tune with this version of damcha")
    if not record["builtin"]:
        raise ValueError("not of built-in tasks: its rates are for the data they were chosen on")
    cells = {}
    for pair, found in sorted(record["cells"].items()):
        grid = record["grids"][pair.partition("/")[0]]
        if [float(rate) for rate in found["scores"]] != grid:
            raise ValueError(f"{pair}: not all rates of its task were tried")
        if found["chosen"] is None:
            raise ValueError(f"{pair}: no rate was chosen; finish damcha suite tune")
        cells[pair] = {
            **{key: found[key] for key in ("chosen", "edge", "metric", "better")},
            # TOML has no null: a rate without a score says why (diverged).
            "scores": {
                rate: found["states"][rate] if score is None else score
                for rate, score in found["scores"].items()
            },
        }
    if not cells:
        raise ValueError("no cells in it")
    return HEADER + tomli_w.dumps({"tuning": {key: record[key] for key in KEYS}, "cells": cells})


def main(arguments: Sequence[str]) -> None:
    """Read the tuning and write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tuning", type=Path, metavar="TUNING_JSON")
    parser.add_argument("--out", type=Path, default=FILE, help="default: the file of the package")
    given = parser.parse_args(arguments)
    try:
        text = rates_text(json.loads(given.tuning.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise SystemExit(f"{given.tuning}: {error}") from None
    given.out.write_text(text, encoding="utf-8")
    notice(f"{given.out}: {text.count('chosen = ')} rates")


if __name__ == "__main__":
    main(sys.argv[1:])
