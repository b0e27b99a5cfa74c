"""Builds the packed texts in damcha_core/data/text/builtin/: cldr.txt.xz and concepts.txt.xz.

    python scripts/builtin_text/build.py            write them
    python scripts/builtin_text/build.py --check    exit 1 and say what differs from them

Babel is needed for this alone. Another release of the Unicode CLDR, which comes with Babel, may
give other phrases; what is built then is another data set, so its hashes in the tests change too.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path

import babel
import babel.core

ROOT = Path(__file__).resolve().parents[2]
# A file that is run finds the modules of its own folder alone.
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from builtin_text.cldr.corpus import phrases  # noqa: E402
from builtin_text.concepts import concept_pairs  # noqa: E402
from damcha_core.data.text.builtin import FOLDER, PackedText, read_packed  # noqa: E402
from damcha_core.errors import DataError  # noqa: E402

COMMAND = "python scripts/builtin_text/build.py"


def cldr() -> PackedText:
    """The phrases that the installed Babel writes, English first."""
    splits = {name: [(p.en, p.de) for p in found] for name, found in phrases().items()}
    return PackedText({"babel": babel.__version__, "cldr": cldr_release()}, splits)


def cldr_release() -> str:
    """The release of CLDR in the installed Babel, "unknown" if that Babel is too old to say."""
    release = getattr(babel.core, "get_cldr_version", None)
    return "unknown" if release is None else str(release())


def concepts() -> PackedText:
    """The concept sets with their sentences."""
    return PackedText({}, concept_pairs())


TEXTS = {"cldr": cldr, "concepts": concepts}


def pack(text: PackedText) -> bytes:
    """The packed file of a text, as `damcha_core.data.text.builtin` describes it."""
    header = {
        "origin": dict(text.origin),
        "splits": {split: len(pairs) for split, pairs in text.splits.items()},
    }
    lines = [json.dumps(header)]
    lines += [f"{source}\t{target}" for pairs in text.splits.values() for source, target in pairs]
    content = "".join(f"{line}\n" for line in lines).encode()
    return lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)


def differences(name: str, stored: PackedText, made: PackedText) -> Iterator[str]:
    """A line for each split of a text whose stored pairs are not those made now.

    Pairs of different releases of CLDR are not compared: there is one line that names both.
    """
    if stored.origin.get("cldr") != made.origin.get("cldr"):
        yield (
            f"{name}: the stored pairs are of {_release(stored)}, installed is {_release(made)}: "
            "they cannot be compared"
        )
        return
    for split in dict.fromkeys([*stored.splits, *made.splits]):
        before, now = list(stored.splits.get(split, ())), list(made.splits.get(split, ()))
        if before != now:
            alike = takewhile(lambda both: both[0] == both[1], zip(before, now, strict=False))
            yield (
                f"{name}: {split} differs from pair {1 + sum(1 for _ in alike)} on, "
                f"{len(before)} pairs are stored and {len(now)} made"
            )


def _release(text: PackedText) -> str:
    return f"CLDR {text.origin.get('cldr')} (Babel {text.origin.get('babel')})"


def check() -> None:
    """Make the texts anew and compare them with the packed files.

    Raises:
        SystemExit: a text differs, or its file cannot be read; the message names it.
    """
    lines: list[str] = []
    for name, make in TEXTS.items():
        try:
            lines += differences(name, read_packed(name), make())
        except DataError as error:
            lines.append(str(error))
    if lines:
        sys.exit("\n".join([*lines, f"to store the texts as they are made now: {COMMAND}"]))


def main(arguments: Sequence[str]) -> None:
    """Write the packed files, or check them."""
    if list(arguments) == ["--check"]:
        check()
        return
    if arguments:
        sys.exit(f"unknown arguments {' '.join(arguments)}; give --check or nothing")
    for name, make in TEXTS.items():
        Path(str(FOLDER), f"{name}.txt.xz").write_bytes(pack(make()))


if __name__ == "__main__":
    main(sys.argv[1:])
