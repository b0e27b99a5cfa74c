"""What makes two runs the same run."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from damcha_core.config.document import to_mapping
from damcha_core.config.schema import RunConfig

# Where a run is stored, what computes it and how its data arrive change none of its numbers.
NOT_IDENTITY = frozenset(
    {"run.name", "run.out", "run.device", "run.threads", "data.root", "data.workers"}
)

# Keys that came after runs had been stored. They count where they differ from these values, which
# are those that a run without them has, so that it keeps its hash.
LATER_KEYS = {
    "data.n_pairs": 8,
    "data.sequence_length": 0,
    "data.train_samples": 10_000,
    "data.easy_epochs": 0,
}


def flat(config: RunConfig) -> dict[str, Any]:
    """All settings as dotted key -> value."""
    return {
        f"{section}.{key}": value
        for section, values in to_mapping(config).items()
        for key, value in values.items()
    }


def config_hash(config: RunConfig) -> str:
    """A hash of the settings that decide a run's numbers.

    Args:
        config: the configuration.

    Returns:
        64 hexadecimal digits: sha256 of the settings as JSON with sorted keys and shortest
        round-trip floats, without run.name, run.out, run.device, run.threads, data.root and
        data.workers, and without LATER_KEYS that have the value given there.
    """
    decisive = {
        # adding 0.0 makes -0.0 and 0.0, which are equal, alike on paper too
        key: value + 0.0 if isinstance(value, float) else value
        for key, value in flat(config).items()
        if key not in NOT_IDENTITY and not (key in LATER_KEYS and value == LATER_KEYS[key])
    }
    text = json.dumps(decisive, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def differing_keys(first: RunConfig, second: RunConfig) -> list[str]:
    """The dotted keys whose values differ, in the order of the run file.

    Args:
        first: one configuration.
        second: another one.

    Returns:
        Keys; an option that one of the two attentions does not have counts as different.
    """
    ours, theirs = flat(first), flat(second)
    missing = object()
    return [key for key in {**ours, **theirs} if ours.get(key, missing) != theirs.get(key, missing)]
