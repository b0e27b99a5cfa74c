"""Scenes: who can do what to what, with what and where, as scenes.txt lists it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from builtin_text.concepts_grammar.adjectives import adjectives_of
from builtin_text.concepts_grammar.nouns import CLASSES, MASS

Number = Literal["one", "many", "mass"]


@dataclass(frozen=True)
class Thing:
    """An object that a scene names.

    Attributes:
        noun: its noun.
        number: one, many ("flowers") or mass ("water").
        owned: said with "his" or "her".
        adjectives: those it may have.
    """

    noun: str
    number: Number
    owned: bool = False
    adjectives: tuple[str, ...] = ()


@dataclass(frozen=True)
class Complement:
    """What belongs to the verb: "with a knife", "into the river"."""

    preposition: str
    determiner: str
    thing: Thing


@dataclass(frozen=True)
class Scene:
    """A line of scenes.txt.

    Attributes:
        subjects: nouns.
        verb: the verb.
        actions: second verb ("" for none) and object, each pair a possibility; none: no object.
        complements: possibilities; none: no complement.
        places: nouns; none: the scene has no place.
    """

    subjects: tuple[str, ...]
    verb: str
    actions: tuple[tuple[str, Thing], ...]
    complements: tuple[Complement, ...]
    places: tuple[str, ...]


@cache
def all_scenes() -> tuple[Scene, ...]:
    """The scenes, in the order of the file."""
    table = files("builtin_text.concepts_grammar").joinpath("scenes.txt").read_bytes()
    lines = [line.strip() for line in table.decode("utf-8").split("\n")]
    return tuple(_scene(line) for line in lines if line and not line.startswith("#"))


def _scene(line: str) -> Scene:
    fields = [field.strip() for field in line.split("|")]
    subjects, verb, objects, complements, places, adjectives = fields + [""] * (6 - len(fields))
    return Scene(
        subjects=_nouns(subjects),
        verb=verb,
        actions=tuple(
            (second, _thing(word, tuple(adjectives.split())))
            for second, words in _seconds(objects)
            for word in words.split()
        ),
        complements=tuple(
            complement for group in _groups(complements) for complement in _complements(group)
        ),
        places=_nouns(places),
    )


def _groups(text: str) -> list[str]:
    return [group.strip() for group in text.split(";") if group.strip()]


def _seconds(objects: str) -> list[tuple[str, str]]:
    """(second verb, its objects); the verb is empty where there is only one verb."""
    if ":" not in objects:
        return [("", objects)]
    pairs = [group.split(":") for group in _groups(objects)]
    return [(verb.strip(), words) for verb, words in pairs]


def _complements(group: str) -> list[Complement]:
    preposition, determiner, nouns = group.split(maxsplit=2)
    return [Complement(preposition, determiner, _thing(noun)) for noun in _nouns(nouns)]


def _nouns(text: str) -> tuple[str, ...]:
    """The nouns of a list, classes written out, each once."""
    found: dict[str, None] = {}
    for word in text.split():
        found.update(dict.fromkeys(CLASSES[word[1:]] if word.startswith("@") else [word]))
    return tuple(found)


def _thing(word: str, extra: tuple[str, ...] = ()) -> Thing:
    """A thing as a scene writes it: "flower+", "~hair", "dish"."""
    noun = word.strip("~+")
    number: Number = "mass" if noun in MASS else "many" if word.endswith("+") else "one"
    # What a scene says of its object (a dirty car to wash) is better than what always fits.
    return Thing(noun, number, word.startswith("~"), extra or adjectives_of(noun))
