"""Words as the caption metrics (BLEU-1 to 4, CIDEr, ROUGE-L, METEOR, coverage) count them.

The field's caption evaluation runs a Java tokenizer of Penn Treebank style, lower-cases, and
drops sentence punctuation. This is the same without Java: NLTK's Treebank tokenizer on
lower-cased text, brackets as -lrb- and its like, then the same punctuation dropped. Both agree
on all sentences of the golden file. Left apart: e-mail addresses, the opening quote of
'single-quoted' words, "y'all", and an abbreviation at the end ("etc." loses its full stop).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from damcha_core.evaluate.text.text_score import Tokens, check_items

REMOVED = frozenset(("''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"))
"""Tokens that do not count. Brackets do: the field's list has them in capitals, which the
lower-cased text never shows."""

BRACKETS = {
    "(": "-lrb-",
    ")": "-rrb-",
    "[": "-lsb-",
    "]": "-rsb-",
    "{": "-lcb-",
    "}": "-rcb-",
}

# Typeset signs and what the Java tokenizer makes of them.
PLAIN_SIGNS = str.maketrans(
    {
        "“": '"',
        "”": '"',
        "„": '"',
        "‘": "'",
        "’": "'",
        "–": " -- ",
        "—": " -- ",
        "…": " ... ",
        "€": "$",
        "£": "#",
    }
)


@dataclass(frozen=True)
class TokenisedItems:
    """Outputs and references as words.

    Attributes:
        hypotheses: one output an item.
        references: for each item its references.
    """

    hypotheses: tuple[Tokens, ...]
    references: tuple[tuple[Tokens, ...], ...]


@functools.cache
def treebank_tokenizer() -> Any:
    """NLTK's tokenizer; imported when first used because that takes more than a second."""
    from nltk.tokenize.treebank import TreebankWordTokenizer

    return TreebankWordTokenizer()


def caption_tokens(text: str) -> list[str]:
    """Words of a text, lower-cased, without sentence punctuation and quotes.

    Args:
        text: detokenised, one sentence or more.

    Returns:
        Words in order; none for a blank text.
    """
    tokens = treebank_tokenizer().tokenize(text.lower().translate(PLAIN_SIGNS))
    return [BRACKETS.get(token, token) for token in tokens if token not in REMOVED]


def tokenise_items(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> TokenisedItems:
    """Outputs and references as words.

    Args:
        hypotheses: one output an item.
        references: for each item its references, one or several.

    Returns:
        Both through `caption_tokens`.

    Raises:
        TypeError: an item's references are a single string.
        ValueError: other numbers of items, or an item without a reference.
    """
    check_items(hypotheses, references)
    return TokenisedItems(
        tuple(caption_tokens(text) for text in hypotheses),
        tuple(tuple(caption_tokens(text) for text in of_item) for of_item in references),
    )
