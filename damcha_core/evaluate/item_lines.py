"""What is kept of every picture of a split: a line of JSON each, for paired tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from damcha_core.evaluate.evaluator import reported_value
from damcha_core.evaluate.sample_scores import Value


def item_lines(
    ids: Sequence[int],
    names: Sequence[str] | None,
    *,
    scores: Mapping[str, Sequence[Value]],
    sums: Mapping[str, Sequence[Value]] | None = None,
    further: Mapping[str, Sequence[Any]] | None = None,
) -> str:
    """Pictures with their scores, as text.

    Args:
        ids: of the pictures in their split, in the order of every other argument.
        names: of all pictures of the split, by id; None where they have none.
        scores: by metric, one value a picture.
        sums: what a pooled metric is made of, one value a picture.
        further: what else is stated of a picture, in plain types.

    Returns:
        A line a picture: {"id", "name" where there are names, what is in `further`, "scores",
        "sums" where there are any}.
    """
    lines = []
    for place, picture in enumerate(ids):
        record: dict[str, Any] = {"id": picture}
        if names is not None:
            record["name"] = names[picture]
        record |= {key: values[place] for key, values in (further or {}).items()}
        record["scores"] = _reported(scores, place)
        if sums:
            record["sums"] = _reported(sums, place)
        lines.append(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")
    return "".join(lines)


def _reported(table: Mapping[str, Sequence[Value]], place: int) -> dict[str, Value]:
    return {name: reported_value(values[place]) for name, values in table.items()}
