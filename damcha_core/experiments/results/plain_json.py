"""JSON files of a study that may be missing, half there or damaged."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any


def read_mapping(path: Path) -> dict[str, Any] | None:
    """The JSON object of a file.

    Args:
        path: the file.

    Returns:
        It, with None for nan and the infinities; None where there is no such file or it holds
        something else.
    """
    try:
        value = json.loads(
            path.read_text(encoding="utf-8"), parse_constant=lambda _: None, parse_float=_finite
        )
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def mapping_in(value: Any, key: str) -> dict[str, Any]:
    """An object within an object; an empty one where there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def text_in(value: Any, key: str) -> str:
    """A text within an object; an empty one where there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def number_in(value: Any, key: str) -> float | None:
    """A number within an object; None where there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


def whole_in(value: Any, key: str) -> int | None:
    """A whole number within an object; None where there is none."""
    found = number_in(value, key)
    return found if isinstance(found, int) else None
