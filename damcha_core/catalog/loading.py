"""Import on demand of what a catalogue row points at."""

from __future__ import annotations

import importlib
from typing import Any


def load(path: str) -> Any:
    """The object at a dotted path.

    Args:
        path: "package.module:attribute".

    Returns:
        The attribute; its module is imported on the first call.

    Raises:
        ValueError: the path has not the form "package.module:attribute".
        ImportError: there is no such module, or it has no such attribute.
    """
    module_name, colon, attribute = path.partition(":")
    if not (module_name and colon and attribute):
        raise ValueError(f'"{path}" is not of the form "package.module:attribute"')
    module = importlib.import_module(module_name)
    try:
        return getattr(module, attribute)
    except AttributeError as error:
        raise ImportError(f"module {module_name} has no attribute {attribute}") from error
