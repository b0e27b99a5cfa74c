"""Reading TOML, with what went wrong said in plain words."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from damcha_core.config.values import printable, shown
from damcha_core.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

# A complete run file has 2,000 bytes. The parser takes time that grows with the square of a line's
# length (a key of thousands of dotted parts), so both limits keep a hostile file below a second.
LARGEST_BYTES = 2**15
LONGEST_LINE = 6000
PLACE = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)")
KEY = re.compile(r"""\s*(\[*[\w."' -]+?\]*)\s*(=|#|$)""")
HEADER = re.compile(r"\s*\[+\s*([^\[\]]+?)\s*\]+\s*(#|$)")
LONG_NUMBER = re.compile(r"[0-9_]{1000}")
HINTS = (
    (r"[^#]*\\", "write a path with backslashes between single quotes: 'C:\\data'"),
    (r".*=\s*(True|False|TRUE|FALSE)\b", "write true or false in small letters"),
    (r".*=\s*(None|null|nil|~)", "leave the key out to have its default"),
    (r"[\w-]+\s*:", 'write key = value, not "key: value"'),
    (r"[^=]*=\s*[A-Za-z./]", "write text in quotes"),
    (r"[^=]*=\s*(#|$)", "a value is missing"),
)


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as nested mappings.

    Args:
        path: the file; UTF-8, with or without a byte order mark, any line ends.

    Returns:
        Its top-level table.

    Raises:
        ConfigError: the file is missing, cannot be read, or is no TOML; the line is named.
    """
    name = printable(str(path))
    try:
        with path.open("rb") as stream:
            content = stream.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError([f"{name}: there is no such file"]) from None
    except IsADirectoryError:
        raise ConfigError([f"{name}: this is a folder, not a run file"]) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError([f"{name}: cannot be read ({reason})"]) from None
    if len(content) > LARGEST_BYTES:
        raise ConfigError([f"{name}: larger than {LARGEST_BYTES // 1024} KiB: no run file"])
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ConfigError(
            [f"{name}, line {line}: this is not UTF-8 text; save the file as UTF-8"]
        ) from None
    return parse_toml(text, name)


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """TOML text as nested mappings.

    Args:
        text: the text.
        name: what an error calls it.

    Returns:
        Its top-level table.

    Raises:
        ConfigError: a line is too long, or the text is no TOML; the line is named.
    """
    for line, source in enumerate(text.split("\n"), start=1):
        if len(source) > LONGEST_LINE:
            raise ConfigError([f"{name}, line {line}: longer than {LONGEST_LINE} characters"])
    try:
        parsed: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([syntax_problem(str(error), text, name)]) from None
    except RecursionError:
        raise ConfigError(
            [f"{name}{line_of_nesting(text)}: lists or tables are nested too deeply"]
        ) from None
    except ValueError:
        # Python converts integers of some thousand digits only when it is asked to.
        raise ConfigError([f"{name}{line_of_number(text)}: a number has too many digits"]) from None
    return parsed


def line_of_number(text: str) -> str:
    """The first line with a very long number, as it follows the file's name; else nothing."""
    for line, source in enumerate(text.split("\n"), start=1):
        if LONG_NUMBER.search(source):
            return f", line {line}"
    return ""


def line_of_nesting(text: str) -> str:
    """The line that opens the most brackets, as it follows the file's name."""
    opened = [source.count("[") + source.count("{") for source in text.split("\n")]
    return f", line {opened.index(max(opened)) + 1}"


def syntax_problem(message: str, text: str, name: str) -> str:
    """One line on text that is no TOML: the place, the reason, and what would mend it.

    Args:
        message: the parser's message.
        text: what was parsed.
        name: what an error calls it.

    Returns:
        Such as 'a.toml, line 3: train.lr is given twice, first on line 2'.
    """
    place = PLACE.search(message)
    lines = text.replace("\r\n", "\n").split("\n")
    line = int(place[1]) if place and place[1] else len(lines)
    reason = PLACE.sub("", message).rstrip(".")
    start = f"{name}, line {line}: "
    if "overwrite" in reason or "twice" in reason:
        return start + given_twice(lines, line)
    source = lines[line - 1].strip()
    hint = next((f"; {hint}" for pattern, hint in HINTS if re.match(pattern, source)), "")
    cause = printable(reason[:1].lower() + reason[1:120])
    quoted = f": {shown(source)}" if source else ""
    return f"{start}this is not TOML ({cause}){quoted}{hint}"


def given_twice(lines: list[str], line: int) -> str:
    """What is said about a key or a section that a file has twice.

    Args:
        lines: the file.
        line: number of the line with the second one, from 1.

    Returns:
        The key with its section, and the line of the first one where it is found.
    """
    match = KEY.match(lines[line - 1])
    if match is None or not re.search(r"\w", match[1]):
        return "something is given twice; keep one of the two"
    section = ""
    first = 0
    for number, source in enumerate(lines[: line - 1], start=1):
        header = HEADER.match(source)
        if header:
            section, first = header[1], (number if header[0].strip() == match[1] else 0)
        earlier = KEY.match(source)
        if earlier and earlier[1] == match[1]:
            first = number
    key = match[1] if match[1].startswith("[") or not section else f"{section}.{match[1]}"
    found = f", first on line {first}" if first else ""
    return f"{printable(key)} is given twice{found}; keep one of the two"
