"""METEOR as NLTK computes it, with WordNet's synonyms or without, 0 to 1.

The formula of 2007 (alpha 0.9, beta 3, gamma 0.5): words are matched exactly, then by Porter
stem, then by synonym, and a penalty grows with the number of chunks the matches fall into. It is
not METEOR 1.5, whose values differ by far, so both variants carry their own names. Words are
those of `caption_tokens`: lower-cased, "mat." and "mat ." alike. An output equal to its
reference scores a little below 1.

WordNet is looked up on this machine alone. Nothing is ever downloaded.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from typing import Any
from zipfile import BadZipFile

from damcha_core.errors import DataError
from damcha_core.evaluate.text.text_score import TextScore, Tokens, check_items, mean_score

# A folder, or the archive that NLTK's downloader leaves as it is.
WORDNET_PLACES = ("corpora/wordnet", "corpora/wordnet.zip/wordnet/")

WORDNET_REMEDY = (
    "Put WordNet 3.0 there as corpora/wordnet and name the folder above corpora in NLTK_DATA "
    "(where the network allows: python -m nltk.downloader wordnet; on Debian: the packages "
    "wordnet-base and wordnet-sense-index, and the file lexnames)."
)

WORDNET_MISSING = (
    "METEOR needs WordNet, and there is no corpora/wordnet in the folders that NLTK searches.\n"
    + WORDNET_REMEDY
)


class NoSynonyms:
    """A WordNet that knows no word, so that only exact and stem matches are left."""

    def synsets(self, word: str) -> list[Any]:
        """No synonyms, whatever the word."""
        return []


def _found() -> Any:
    """Where WordNet is, as NLTK's path pointer.

    Raises:
        DataError: in none of the folders that NLTK searches.
    """
    import nltk

    for place in WORDNET_PLACES:
        with contextlib.suppress(LookupError):
            return nltk.data.find(place)
    raise DataError(WORDNET_MISSING)


@functools.lru_cache(maxsize=1)
def _opened(where: str) -> Any:
    """WordNet at a place that `_found` gave, after one look-up has worked."""
    from nltk.corpus.reader import CorpusReader
    from nltk.corpus.reader.wordnet import WordNetCorpusReader
    from nltk.corpus.util import LazyCorpusLoader

    # Other languages' words, which are never asked for; without it the reader warns.
    other_languages = LazyCorpusLoader("omw-1.4", CorpusReader, r".*/wn-data-.*\.tab")
    reader = WordNetCorpusReader(_found(), other_languages)
    if not reader.synsets("dog"):
        raise LookupError("it does not know the word dog")
    return reader


def wordnet() -> Any:
    """WordNet from the folders that NLTK searches, read once and kept.

    Returns:
        NLTK's reader.

    Raises:
        DataError: there is none, or it is incomplete; the text says what helps.
    """
    from nltk.corpus.reader.wordnet import WordNetError

    # A damaged corpus fails in the reader's parsing, with whatever that comes upon.
    damage = (OSError, ValueError, AttributeError, TypeError, AssertionError, StopIteration)
    where = str(_found())
    try:
        return _opened(where)
    except (LookupError, WordNetError, BadZipFile, *damage) as problem:
        raise DataError(
            f"METEOR needs WordNet, and the one in {where} is incomplete or damaged.\n"
            f"{WORDNET_REMEDY}"
        ) from problem


def wordnet_problem() -> str | None:
    """Why METEOR cannot be had here, found by opening WordNet and looking a word up.

    Returns:
        Two plain lines, None where it can.
    """
    try:
        wordnet()
    except DataError as problem:
        return str(problem)
    return None


def wordnet_available() -> bool:
    """Whether METEOR can be had here, see `wordnet_problem`."""
    return wordnet_problem() is None


def meteor(hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> TextScore:
    """METEOR with synonyms: the mean over the items of the best reference's score.

    Args:
        hypotheses: words of one output an item.
        references: for each item the words of its references, one or several.

    Returns:
        Value 0 to 1, None without items.

    Raises:
        TypeError: an item's references are a single string.
        ValueError: other numbers of items, or an item without a reference.
        DataError: WordNet is not there.
    """
    check_items(hypotheses, references)
    return meteor_with(wordnet(), "meteor-nltk|wordnet", hypotheses, references)


def meteor_nosyn(hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> TextScore:
    """METEOR with exact and stem matches only, which needs no WordNet.

    Args:
        hypotheses: words of one output an item.
        references: for each item the words of its references, one or several.

    Returns:
        Value 0 to 1, None without items.

    Raises:
        TypeError: an item's references are a single string.
        ValueError: other numbers of items, or an item without a reference.
    """
    check_items(hypotheses, references)
    return meteor_with(NoSynonyms(), "meteor-nltk-nosyn", hypotheses, references)


def meteor_with(
    synonyms: Any, name: str, hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]
) -> TextScore:
    """METEOR with a given source of synonyms.

    Args:
        synonyms: has `synsets(word)`, whose entries have `lemmas()`, whose entries have `name()`.
        name: start of the signature.
        hypotheses: see `meteor`.
        references: see `meteor`.

    Returns:
        See `meteor`.
    """
    from nltk.translate.meteor_score import meteor_score

    items = [
        float(meteor_score(of_item, words, wordnet=synonyms))
        for words, of_item in zip(hypotheses, references, strict=True)
    ]
    return mean_score(items, signature=f"{name}|alpha:0.9|beta:3|gamma:0.5")
