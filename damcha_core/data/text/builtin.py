"""The built-in texts: English-German phrases of CLDR, and concept sets with their sentences.

They are packed files in the folder builtin/, made once by scripts/builtin_text/build.py. A packed
file is UTF-8 text compressed by xz. Its first line is JSON, {"origin": {...}, "splits": {name:
number of pairs}}; after it come the pairs of the splits in that order, one a line, source and
target separated by a tab.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from pathlib import Path

from damcha_core.data.notify import Notify, no_notice
from damcha_core.data.text.pairs import ListedPairs, Pair, TextData
from damcha_core.errors import DataError, UsageError

FOLDER = files("damcha_core.data.text").joinpath("builtin")
LANGUAGES = ("en", "de")


@dataclass(frozen=True)
class PackedText:
    """What a packed file holds.

    Attributes:
        origin: what the pairs were made from, such as {"cldr": "49"}; empty if from our code alone.
        splits: the pairs of each split, in order.
    """

    origin: Mapping[str, str]
    splits: Mapping[str, Sequence[Pair]]


def load_cldr(
    *,
    root: str | Path = "",
    source_lang: str = "en",
    target_lang: str = "de",
    notify: Notify = no_notice,
) -> TextData:
    """Phrases of dates, times, numbers, units, countries and languages, written by Babel from CLDR.

    The splits train, valid and test have no text in common, on either side. The split unseen has
    phrases that put an item into a template it never stands in elsewhere, item and template each
    being common in training: it asks whether parts are recombined or phrases remembered.

    Texts are as CLDR has them, with its no-break and thin spaces. To the metrics of this project
    every kind of space is alike. The Unicode licence in builtin/LICENSE-cldr.txt covers them.

    Args:
        root: not used, the phrases are part of the package.
        source_lang: "en" or "de".
        target_lang: the other one.
        notify: not used.

    Raises:
        UsageError: the languages are not English and German.
        DataError: the packed file is missing or damaged.
    """
    if sorted((source_lang, target_lang)) != sorted(LANGUAGES):
        raise UsageError(
            f"the cldr phrases are English and German, not {source_lang!r} to {target_lang!r}\n"
            'set data.source_lang = "en" and data.target_lang = "de", or the other way round'
        )
    text = read_packed("cldr")
    side = {language: number for number, language in enumerate(LANGUAGES)}
    source, target = side[source_lang], side[target_lang]
    return TextData(
        {
            split: ListedPairs(f"cldr {split}", [(pair[source], pair[target]) for pair in pairs])
            for split, pairs in text.splits.items()
        },
        origin=text.origin,
    )


def load_concepts(
    *,
    root: str | Path = "",
    source_lang: str = "",
    target_lang: str = "",
    notify: Notify = no_notice,
) -> TextData:
    """Concept sets: 8,000 train, 400 valid, 400 test, each with 1 to 4 sentences, one pair each.

    A source is 3 to 5 base forms in an order shuffled once per set ("park chase dog"), a target a
    sentence with all of them ("A dog is chasing a ball in the park."). The pairs of a set are
    consecutive.

    No set of valid or test contains, or is contained in, any other set of the three splits, and
    each of its words is in at least 8 training sets: known words in new combinations.

    Args:
        root: not used, the sentences are part of the package.
        source_lang: not used.
        target_lang: not used.
        notify: not used.

    Raises:
        DataError: the packed file is missing or damaged.
    """
    text = read_packed("concepts")
    return TextData(
        {split: ListedPairs(f"concepts ({split})", pairs) for split, pairs in text.splits.items()},
        origin=text.origin,
    )


def read_packed(name: str) -> PackedText:
    """The content of a packed file.

    Args:
        name: "cldr" or "concepts".

    Raises:
        DataError: the file is missing, cannot be read, is cut off or damaged.
    """
    file = FOLDER.joinpath(f"{name}.txt.xz")
    try:
        return _unpacked(file.read_bytes())
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
    except (lzma.LZMAError, ValueError, KeyError):
        problem = "is damaged or cut off"
    raise DataError(f"the built-in text {name} {problem}\n{file}\ninstall damcha again")


def _unpacked(data: bytes) -> PackedText:
    # Not splitlines(): only a line feed ends a pair, whatever other separators a text may hold.
    header, *lines = lzma.decompress(data).decode("utf-8").removesuffix("\n").split("\n")
    facts = json.loads(header)
    sizes: dict[str, int] = facts["splits"]
    if len(lines) != sum(sizes.values()):
        raise ValueError("the number of pairs is not the stated one")
    pairs = map(_pair, lines)
    return PackedText(
        facts["origin"], {split: list(islice(pairs, n)) for split, n in sizes.items()}
    )


def _pair(line: str) -> Pair:
    source, target = line.split("\t")
    return source, target
