"""The built-in translation data set: short English-German phrases made from CLDR."""

from __future__ import annotations

from pathlib import Path

import babel
import babel.core

from damcha_core.data.notify import Notify, no_notice
from damcha_core.data.text.cldr.corpus import phrases
from damcha_core.data.text.pairs import ListedPairs, TextData
from damcha_core.errors import UsageError

LANGUAGES = ("en", "de")


def load_cldr(
    *,
    root: str | Path = "",
    source_lang: str = "en",
    target_lang: str = "de",
    notify: Notify = no_notice,
) -> TextData:
    """Phrases of dates, times, numbers, units, countries and languages that Babel writes.

    The splits train, valid and test have no text in common, on either side. The split unseen has
    phrases that put an item into a template it never stands in elsewhere, item and template each
    being common in training: it asks whether parts are recombined or phrases remembered.

    The same Babel gives the same pairs on every machine; another release of CLDR may give others.
    Texts are as CLDR has them, with its no-break and thin spaces. To the metrics of this project
    every kind of space is alike.

    Args:
        root: not used, the phrases are made on the spot.
        source_lang: "en" or "de".
        target_lang: the other one.
        notify: called while the phrases are made.

    Raises:
        UsageError: the languages are not English and German.
    """
    if sorted((source_lang, target_lang)) != sorted(LANGUAGES):
        raise UsageError(
            f"the cldr phrases are English and German, not {source_lang!r} to {target_lang!r}\n"
            'set data.source_lang = "en" and data.target_lang = "de", or the other way round'
        )
    splits = {
        name: ListedPairs(
            f"cldr {name}",
            [(phrase.side(source_lang), phrase.side(target_lang)) for phrase in found],
        )
        for name, found in phrases(notify).items()
    }
    return TextData(splits, origin={"babel": babel.__version__, "cldr": _cldr_release()})


def _cldr_release() -> str:
    # Babel has told it only lately.
    release = getattr(babel.core, "get_cldr_version", None)
    return "unknown" if release is None else str(release())
