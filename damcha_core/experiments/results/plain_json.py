"""Values within the JSON objects of a study, which may hold anything."""

from __future__ import annotations

from typing import Any


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
