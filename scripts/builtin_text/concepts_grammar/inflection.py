"""Inflected forms: plurals, verb forms, and "a" or "an"."""

from __future__ import annotations

from builtin_text.concepts_grammar.nouns import IRREGULAR_PLURALS
from builtin_text.concepts_grammar.verbs import IRREGULAR_PAST

_VOWELS = frozenset("aeiou")
# Written with a vowel, spoken with a consonant.
_NO_AN = frozenset({"uniform"})
# Several syllables, the last one stressed.
_DOUBLED = frozenset({"forget"})


def plural(noun: str) -> str:
    """The plural of a noun that has one."""
    return IRREGULAR_PLURALS.get(noun) or _with_s(noun)


def third_person(verb: str) -> str:
    """The form after "she", in the present."""
    return _with_s(verb)


def participle(verb: str) -> str:
    """The form in -ing."""
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if verb.endswith("e") and not verb.endswith("ee"):
        return verb[:-1] + "ing"
    return _doubled(verb) + "ing"


def past(verb: str) -> str:
    """The simple past."""
    if verb in IRREGULAR_PAST:
        return IRREGULAR_PAST[verb]
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in _VOWELS:
        return verb[:-1] + "ied"
    return _doubled(verb) + "ed"


def article(word: str) -> str:
    """ "a" or "an", whichever stands before the word."""
    return "an" if word[0] in _VOWELS and word not in _NO_AN else "a"


def _with_s(word: str) -> str:
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2] not in _VOWELS:
        return word[:-1] + "ies"
    return word + "s"


def _doubled(verb: str) -> str:
    """The verb with its last letter twice where that is the rule: stop, stopping."""
    syllables = sum(
        letter in _VOWELS and verb[i - 1 : i] not in _VOWELS for i, letter in enumerate(verb)
    )
    short = verb[-1] not in "aeiouwxy" and verb[-2] in _VOWELS and verb[-3] not in _VOWELS
    return verb + verb[-1] if short and (syllables == 1 or verb in _DOUBLED) else verb
