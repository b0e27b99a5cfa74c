"""Forms under which a concept may stand in an English sentence, as tokens for a search.

The forms are the word itself and those of its regular inflections that concept coverage counts
(equal Porter stems); there is no dictionary. Which of them fits is the model's to say.
"""

from __future__ import annotations

import unicodedata

import numpy as np
from numpy.typing import NDArray

from damcha_core.data.text.tokenizer import Tokenizer
from damcha_core.evaluate.text.coverage import stemmed

VOWELS = "aeiou"
SPACE_SIGN = "\u2581"
"""How a piece of the tokenizer writes the space before a word."""


def word_forms(word: str) -> tuple[str, ...]:
    """A word and its regular inflections, each once.

    Args:
        word: a noun, verb or adjective in its base form.

    Returns:
        The word first; then plural or third person, past, and present participle.
    """
    if not word.isalpha() or len(word) < 2:
        return (word,)
    stem = word[:-1] if word.endswith("e") and not word.endswith(("ee", "oe", "ye")) else word
    forms: tuple[str, ...]
    if word.endswith("y") and word[-2] not in VOWELS:
        forms = (word, word[:-1] + "ies", word[:-1] + "ied", word + "ing")
    elif word.endswith(("s", "x", "z", "ch", "sh")):
        forms = (word, word + "es", word + "ed", word + "ing")
    else:
        past = word + "d" if word.endswith("e") else word + "ed"
        forms = (word, word + "s", past, stem + "ing")
    if is_short_closed(word):
        forms = (*forms, word + word[-1] + "ed", word + word[-1] + "ing")
    return tuple(dict.fromkeys(forms))


def is_short_closed(word: str) -> bool:
    """Whether a word ends in consonant, vowel, consonant, so that the last may be doubled."""
    end = word[-3:]
    return (
        len(end) == 3
        and end[0] not in VOWELS
        and end[1] in VOWELS
        and end[2] not in VOWELS + "wxyh"
    )


def concepts_of(source: str) -> list[str]:
    """The concepts of a source, which parts them by spaces; each once."""
    return list(dict.fromkeys(source.split()))


def concept_forms(source: str, tokenizer: Tokenizer) -> list[list[list[int]]]:
    """For each concept of a source its forms, each as tokens.

    Args:
        source: concepts parted by spaces.
        tokenizer: of the run.
    """
    return [
        [
            tokenizer.encode(form)
            for form in word_forms(concept)
            if stemmed([form]) == stemmed([concept])
        ]
        for concept in concepts_of(source)
    ]


def word_starts(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """For each token whether a word that stands before it is complete.

    A space or punctuation may follow a word, a letter would make another word of it; so may the
    end mark.
    """
    return np.array(
        [
            token == tokenizer.eos_id or ends_word(tokenizer.piece(token))
            for token in range(tokenizer.vocab_size)
        ]
    )


def ends_word(piece: str) -> bool:
    """Whether a piece of the tokenizer cannot go on with the word before it."""
    return piece.startswith(SPACE_SIGN) or unicodedata.category(piece[0]).startswith("P")
