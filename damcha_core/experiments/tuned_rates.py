"""The learning rates that a study trains at with --tuned: its own tuning's, or the shipped ones.

The shipped ones are the outcome of one tuning on the built-in tasks, in tuned_rates.toml. A rate is
that of one task and one attention: none is taken over for other data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from damcha_core.config.toml_text import parse_toml
from damcha_core.errors import CheckpointError, UsageError
from damcha_core.experiments.suite import Override, Suite
from damcha_core.files import find_json_object

RATE = "train.lr"
TUNING_FILE = "tuning.json"
SHIPPED = files("damcha_core.experiments") / "tuned_rates.toml"
"""The rates of the package; it may have none."""


@dataclass(frozen=True)
class TunedRates:
    """Chosen rates and where they are from.

    Attributes:
        origin: one line, such as "runs/study/tuning.json".
        is_shipped: whether they are those of the package.
        rates: by "task/attention".
    """

    origin: str
    is_shipped: bool
    rates: Mapping[str, float]

    @property
    def provenance(self) -> str:
        """The origin as a study stores it, whose folder may be moved."""
        return self.origin if self.is_shipped else TUNING_FILE


def tuned_rates(folder: Path) -> TunedRates:
    """The rates of the tuning of a study; those of the package where it has not been tuned.

    Args:
        folder: of the study.

    Raises:
        CheckpointError: the file of the tuning is damaged.
    """
    file = folder / TUNING_FILE
    if not file.exists():
        return shipped_rates()
    record = find_json_object(file)
    if record is None:
        raise CheckpointError(f"{file}: damaged; make it with damcha suite tune")
    return TunedRates(str(file), False, _chosen(record, str(file)))


def shipped_rates() -> TunedRates:
    """The rates of the package.

    Raises:
        CheckpointError: their file is damaged.
    """
    if not SHIPPED.is_file():
        return TunedRates("the rates shipped with damcha, of which there are none", True, {})
    record = parse_toml(SHIPPED.read_text(encoding="utf-8"), "tuned_rates.toml")
    tuning = record.get("tuning", {})
    made = ""
    if isinstance(tuning, Mapping):
        budget = tuning.get("budget", {})
        name = budget.get("name", "?") if isinstance(budget, Mapping) else "?"
        made = f" (tuned by suite {tuning.get('suite', '?')}, budget {name}, "
        made += f"code {str(tuning.get('code', '?'))[:24]})"
    origin = f"the rates shipped with damcha{made}"
    return TunedRates(origin, True, _chosen(record, "tuned_rates.toml"))


def _chosen(record: Mapping[str, Any], file: str) -> dict[str, float]:
    cells = record.get("cells")
    rates = {}
    for pair, found in cells.items() if isinstance(cells, Mapping) else ():
        chosen = found.get("chosen", "") if isinstance(found, Mapping) else ""
        if chosen is None:
            continue
        if not isinstance(chosen, float) or not (math.isfinite(chosen) and chosen > 0):
            raise CheckpointError(f"{file}: damaged: no learning rate for {pair}")
        rates[pair] = chosen
    return rates


def with_tuned_rates(suite: Suite, tuned: TunedRates, tasks: Sequence[str], again: str) -> Suite:
    """A suite whose every task and attention has the rate that was chosen for it.

    Args:
        suite: to be tuned.
        tuned: the rates.
        tasks: those that will be trained (of `chosen_tasks`).
        again: the command that chooses what is lacking.

    Raises:
        UsageError: nothing was chosen for some task and attention.
    """
    overrides, lacking = [], []
    for task in tasks:
        for attention in suite.attentions:
            rate = tuned.rates.get(f"{task}/{attention}")
            if rate is None:
                lacking.append(f"{task}/{attention}")
            else:
                overrides.append(Override({RATE: rate}, task=task, attention=attention))
    if lacking:
        more = ", ..." if len(lacking) > 5 else ""
        pairs = ", ".join(lacking[:5]) + more
        if tuned.is_shipped:
            said = f"no rate is shipped for {pairs}, and none was chosen here; choose with {again}"
        else:
            said = f"{tuned.origin}: no rate was chosen for {pairs}; finish {again}"
        raise UsageError(f"{said}, or leave --tuned out")
    return replace(suite, overrides=(*suite.overrides, *overrides))
