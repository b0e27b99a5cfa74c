"""Field types that the schema shares, and what is said about a value that does not fit."""

from __future__ import annotations

import json
import math
import re
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.fields import FieldInfo

LONGEST_SHOWN = 60
MOST_ITEMS = 8
DEVICE = re.compile(r"auto|cpu|mps|cuda(:[0-9]{1,3})?")
LANGUAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")


class Settings(BaseModel):
    """Base of every section and of every options class: strict, frozen, nothing unknown."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


def writable(text: str) -> str:
    """Text that a run file can hold on one line.

    Args:
        text: any text.

    Returns:
        The text itself.

    Raises:
        ValueError: it has control characters, or bytes that are not UTF-8.
    """
    codes = [ord(letter) for letter in text]
    if any(code < 32 or 127 <= code < 160 or 0xD800 <= code < 0xE000 for code in codes):
        raise ValueError(
            "text in UTF-8 without control characters (between double quotes a backslash starts "
            "an escape: write a Windows path between single quotes)"
        )
    return text


def device_name(text: str) -> str:
    """A device by its form alone; whether the machine has it is seen when the run starts.

    Args:
        text: name of a device.

    Returns:
        The name itself.

    Raises:
        ValueError: it has none of the forms that are supported.
    """
    if not DEVICE.fullmatch(text):
        raise ValueError('"auto", "cpu", "cuda", "cuda:N" (N counts from 0) or "mps"')
    return text


def folder_name(text: str) -> str:
    """The name of a folder inside runs/, not a path.

    Args:
        text: a name; empty: none given.

    Returns:
        The name itself.

    Raises:
        ValueError: it holds a path separator, or it is no name of a folder.
    """
    if "/" in text or "\\" in text or text in {".", ".."} or text != text.strip():
        raise ValueError(
            'the name of a folder inside runs/, such as "first" (a path belongs in run.out)'
        )
    return text


def language_code(text: str) -> str:
    """A language as the names of files end in it.

    Args:
        text: such as "en" or "pt_BR".

    Returns:
        The code itself.

    Raises:
        ValueError: it has other characters than letters, digits, - and _.
    """
    if not LANGUAGE.fullmatch(text):
        raise ValueError('the ending of a file name without the dot, such as "en" or "pt_BR"')
    return text


def as_tuple(value: object) -> object:
    """A list as a tuple, because TOML knows lists alone."""
    return tuple(value) if isinstance(value, list) else value


Text = Annotated[str, AfterValidator(writable)]
FolderName = Annotated[Text, AfterValidator(folder_name)]
Device = Annotated[Text, AfterValidator(device_name)]
LanguageCode = Annotated[Text, AfterValidator(language_code)]
Widths = Annotated[
    tuple[Annotated[int, Field(ge=1, le=65536)], ...],
    Field(min_length=1, max_length=16),
    BeforeValidator(as_tuple),
]


def printable(text: str) -> str:
    """A name or a path as it is, or escaped when it would not print on one line."""
    return text if text.isprintable() and text else ascii(text)


def shown(value: object) -> str:
    """A value on one short line, in TOML's spelling where it has one.

    Args:
        value: what a run file, `--set` or a flag gave.

    Returns:
        Printable text; long values are cut.
    """
    if isinstance(value, str):
        cut = value if len(value) <= LONGEST_SHOWN else value[:LONGEST_SHOWN] + "..."
        return json.dumps(cut, ensure_ascii=not cut.isprintable())
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        # Python refuses to write out integers of thousands of digits.
        bits = value.bit_length()
        return str(value) if bits < 128 else f"an integer of {bits} bits"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, (list, tuple)):
        items = ["[...]" if isinstance(item, (list, tuple)) else shown(item) for item in value]
        more = ", ..." if len(items) > MOST_ITEMS else ""
        return f"[{', '.join(items[:MOST_ITEMS])}{more}]"
    return str(value)[:LONGEST_SHOWN]


def number(value: float) -> str:
    """A bound of a range without a useless ".0"."""
    return str(int(value)) if math.isfinite(value) and value == int(value) else repr(value)


def span(metadata: list[Any]) -> str:
    """The range that bounds describe.

    Args:
        metadata: constraints of a field, a lower bound (ge or gt) and an upper one (le or lt).

    Returns:
        Such as "from 1 to 8", "from 0 to below 1" or "above 0, at most 10".
    """
    bounds: dict[str, float] = {}
    for constraint in metadata:
        for kind in ("ge", "gt", "le", "lt"):
            value = getattr(constraint, kind, None)
            if value is not None:
                bounds[kind] = value
    low = f"from {number(bounds['ge'])}" if "ge" in bounds else f"above {number(bounds['gt'])}"
    if "lt" in bounds:
        high = f"below {number(bounds['lt'])}"
        return f"{low} to {high}" if "ge" in bounds else f"{low}, {high}"
    high = number(bounds["le"])
    return f"{low} to {high}" if "ge" in bounds else f"{low}, at most {high}"


def allowed(field: FieldInfo) -> str:
    """What a field accepts, as words that follow "give".

    Args:
        field: a field of a section or of an options class.

    Returns:
        Such as "a whole number from 1 to 16" or 'one of "head", "matrix"'.
    """
    kind = field.annotation
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(allowed(FieldInfo.from_annotation(part)) for part in get_args(kind))
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(shown(choice) for choice in get_args(kind))
    if kind is bool:
        return "true or false"
    if kind is int:
        return "a whole number " + span(field.metadata)
    if kind is float:
        return "a number " + span(field.metadata)
    if get_origin(kind) is tuple:
        item = get_args(get_args(kind)[0])[1]
        return "a list of 1 to 16 whole numbers " + span(item.metadata)
    return "text in quotes"
