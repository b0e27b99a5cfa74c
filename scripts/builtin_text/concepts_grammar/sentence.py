"""Sentences: the ways in which an event can be told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from builtin_text.concepts_grammar.event import Event, Phrase, joined_with_to
from builtin_text.concepts_grammar.inflection import (
    article,
    participle,
    past,
    plural,
    third_person,
)
from builtin_text.concepts_grammar.verbs import ADVERBS, PAST_TOLD, STATES

Tense = Literal["progressive", "past", "present"]


@dataclass(frozen=True)
class Telling:
    """How an event is told.

    Attributes:
        tense: "is chasing", "chased" or "chases".
        subject: "a", "the" or "two".
        object: "a" or "the".
        order: the place last or first, or "there is" before all.
        adverb: with the adverb of the verb.
    """

    tense: Tense
    subject: Literal["a", "the", "two"] = "a"
    object: Literal["a", "the"] = "a"
    order: Literal["plain", "place first", "there"] = "plain"
    adverb: bool = False


_PROGRESSIVE: tuple[tuple[Telling, int], ...] = (
    (Telling("progressive"), 46),
    (Telling("past", "the", "the"), 20),
    (Telling("present"), 10),
    (Telling("progressive", order="place first"), 8),
    (Telling("progressive", "two"), 6),
    (Telling("progressive", order="there"), 5),
    (Telling("past", "the", "the", adverb=True), 5),
)
_PAST: tuple[tuple[Telling, int], ...] = (
    (Telling("past", "the"), 52),
    (Telling("past"), 20),
    (Telling("past", "the", order="place first"), 12),
    (Telling("past", "two"), 6),
    (Telling("present", "the"), 5),
    (Telling("past", "the", adverb=True), 5),
)
_STATE: tuple[tuple[Telling, int], ...] = (
    (Telling("present"), 55),
    (Telling("past", "the", "the"), 25),
    (Telling("present", "the", "the"), 20),
)


def tellings(event: Event) -> list[tuple[str, int]]:
    """All sentences for an event, each with how often it should be chosen; none twice."""
    table = _PROGRESSIVE
    if event.verb in PAST_TOLD:
        table = _PAST
    elif event.verb in STATES:
        table = _STATE
    found: dict[str, int] = {}
    for telling, weight in table:
        if _possible(event, telling):
            found.setdefault(tell(event, telling), weight)
    return list(found.items())


def _possible(event: Event, telling: Telling) -> bool:
    if telling.adverb and (event.verb not in ADVERBS or event.second):
        return False
    if telling.order == "place first" and (not event.place or _and_second(event)):
        return False
    if telling.order == "there":
        return len(event.subjects) == 1
    if telling.subject == "two":
        return len(event.subjects) == 1 and event.shareable and not event.second
    return True


def tell(event: Event, telling: Telling) -> str:
    """The sentence for an event told in one way."""
    subject, several = _subject(event, telling)
    place = _place(event)
    rest = _rest(event, telling)
    if telling.order == "place first":
        words = [*place[:-1], place[-1] + ",", *subject, *_verb(event, telling, several), *rest]
    elif _and_second(event):
        link = ["and", _form(event.second, telling.tense, several)]
        words = [*subject, *_verb(event, telling, several), *place, *link, *rest]
    else:
        words = [*subject, *_verb(event, telling, several), *rest, *place]
    text = " ".join(words)
    return text[0].upper() + text[1:] + "."


def _subject(event: Event, telling: Telling) -> tuple[list[str], bool]:
    """The subject's words, and whether its verb is in the plural."""
    if event.pronoun:
        return [event.pronoun], event.pronoun == "they"
    if telling.subject == "two":
        return ["two", *_noun(event.subjects[0], many=True)], True
    words = [_determined(phrase, telling.subject) for phrase in event.subjects]
    if telling.order == "there":
        return ["there", "is", *words[0]], False
    if len(words) == 2:
        return [*words[0], "and", *words[1]], True
    return words[0], False


def _verb(event: Event, telling: Telling, several: bool) -> list[str]:
    verb = _form(event.verb, telling.tense, several)
    adverb = [ADVERBS[event.verb]] if telling.adverb else []
    if telling.tense == "progressive" and telling.order != "there":
        return ["are" if several else "is", *adverb, verb]
    return [*adverb, verb]


def _form(verb: str, tense: Tense, several: bool) -> str:
    forms: dict[Tense, Callable[[str], str]] = {"progressive": participle, "past": past}
    if tense in forms:
        return forms[tense](verb)
    return verb if several else third_person(verb)


def _rest(event: Event, telling: Telling) -> list[str]:
    """What follows the verb (or the second one): "to" with a second verb, object, complement."""
    words = ["to", event.second] if event.second and joined_with_to(event.verb) else []
    if event.object:
        words += _determined(event.object, event.owner or telling.object)
    if event.complement:
        preposition, determiner, phrase = event.complement
        words += [preposition, *_determined(phrase, determiner)]
    return words


def _place(event: Event) -> list[str]:
    if not event.place:
        return []
    preposition, phrase = event.place
    return [preposition, *_determined(phrase, "the")]


def _and_second(event: Event) -> bool:
    return bool(event.second) and not joined_with_to(event.verb)


def _noun(phrase: Phrase, many: bool) -> list[str]:
    noun = plural(phrase.noun) if many else phrase.noun
    return [phrase.adjective, noun] if phrase.adjective else [noun]


def _determined(phrase: Phrase, determiner: str) -> list[str]:
    """The phrase after its determiner; "a" becomes "an" or nothing where that is right."""
    words = _noun(phrase, phrase.number == "many")
    if determiner != "a":
        return [determiner, *words]
    return [article(words[0]), *words] if phrase.number == "one" else words
