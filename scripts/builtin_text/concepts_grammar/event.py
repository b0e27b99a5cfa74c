"""Events: one scene with all its words chosen; its words are a concept set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from builtin_text.concepts_grammar.adjectives import adjectives_of
from builtin_text.concepts_grammar.nouns import FEMALE, MALE, PEOPLE, PLACES, PLURAL_ONLY
from builtin_text.concepts_grammar.scene import Number, Scene, Thing
from builtin_text.concepts_grammar.verbs import SHARED
from builtin_text.draws import Draws

MIN_CONCEPTS, MAX_CONCEPTS = 3, 5
_SIZES, _SIZE_WEIGHTS = (3, 4, 5), (30, 40, 30)
Pronoun = Literal["he", "she", "they"]


@dataclass(frozen=True)
class Phrase:
    """A noun with or without an adjective."""

    noun: str
    number: Number = "one"
    adjective: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """Its concepts."""
        return (self.adjective, self.noun) if self.adjective else (self.noun,)


@dataclass(frozen=True)
class Event:
    """What a sentence tells.

    Attributes:
        subjects: one or two, or none: then there is a pronoun.
        pronoun: stands for the subject; "" where there is one.
        verb: the verb.
        second: a second verb with the same subject, or "".
        object: object of the verb, or of the second one.
        owner: "his" or "her" before the object, or "".
        complement: preposition, "a" or "the", phrase.
        place: preposition and phrase, with "the".
    """

    subjects: tuple[Phrase, ...]
    pronoun: Pronoun | Literal[""]
    verb: str
    second: str = ""
    object: Phrase | None = None
    owner: str = ""
    complement: tuple[str, str, Phrase] | None = None
    place: tuple[str, Phrase] | None = None

    @property
    def concepts(self) -> tuple[str, ...]:
        """Base forms of all its words but articles, prepositions and pronouns."""
        verbs = (self.verb, self.second) if self.second else (self.verb,)
        return verbs + tuple(word for phrase in self.phrases() for word in phrase.words)

    @property
    def shareable(self) -> bool:
        """Whether two can do it together without a strange picture."""
        one_thing = self.object is not None and self.object.number == "one"
        with_one = self.complement is not None and self.complement[1] == "a"
        return not self.owner and (
            not (one_thing or with_one) or (self.verb in SHARED and not with_one)
        )

    def phrases(self) -> list[Phrase]:
        """All of its phrases."""
        others = [
            self.object,
            self.complement[2] if self.complement else None,
            self.place[1] if self.place else None,
        ]
        return [*self.subjects, *(phrase for phrase in others if phrase)]


def draw_event(scene: Scene, draws: Draws) -> Event | None:
    """Choose the words of a scene; None where they make no set of 3 to 5 different concepts."""
    size = draws.weighted(_SIZES, _SIZE_WEIGHTS)
    event, extra = _core(scene, draws)
    for grow in draws.shuffled(_growths(scene, extra, draws)):
        if len(event.concepts) >= size:
            break
        event = grow(event)
    concepts = event.concepts
    fits = MIN_CONCEPTS <= len(concepts) <= MAX_CONCEPTS
    return event if fits and len(set(concepts)) == len(concepts) else None


def _core(scene: Scene, draws: Draws) -> tuple[Event, tuple[str, ...]]:
    """What the scene cannot do without, and the adjectives that its object may have."""
    subject = draws.pick(scene.subjects)
    pronoun = _pronoun(subject, draws)
    thing: Thing | None = None
    second = owner = ""
    if scene.actions:
        second, thing = draws.pick(scene.actions)
        owner = _owner(subject, pronoun) if thing.owned else ""
    chosen = draws.pick(scene.complements) if scene.complements else None
    complement = None
    if chosen:
        phrase = Phrase(chosen.thing.noun, chosen.thing.number)
        complement = (chosen.preposition, chosen.determiner, phrase)
    event = Event(
        subjects=() if pronoun else (Phrase(subject),),
        pronoun=pronoun,
        verb=scene.verb,
        second=second,
        object=Phrase(thing.noun, thing.number) if thing else None,
        owner=owner,
        complement=complement,
    )
    if pronoun == "they" and not event.shareable:
        event = replace(event, pronoun="she")
    # A second verb after the place needs that place: "is sitting on the bench and reading".
    if scene.places and ((second and not joined_with_to(scene.verb)) or (not thing and not chosen)):
        event = _with_place(scene, draws)(event)
    return event, thing.adjectives if thing else ()


def joined_with_to(verb: str) -> bool:
    """Whether a second verb follows with "to": "wants to read"."""
    return verb in ("help", "learn", "try", "want")


def _pronoun(subject: str, draws: Draws) -> Pronoun | Literal[""]:
    if subject not in PEOPLE or not draws.percent(18):
        return ""
    if subject in MALE:
        return "he"
    if subject in FEMALE:
        return "she"
    return draws.pick(("he", "she", "they"))


def _owner(subject: str, pronoun: str) -> str:
    return "his" if subject in MALE or pronoun == "he" else "her"


def _growths(scene: Scene, extra: tuple[str, ...], draws: Draws) -> list[Callable[[Event], Event]]:
    """Ways to make an event say more."""
    growths: list[Callable[[Event], Event]] = [
        lambda event: _with_subject_adjective(event, draws),
        lambda event: _with_object_adjective(event, extra, draws),
    ]
    if scene.places:
        # Twice: a place tells more than an adjective.
        growths += [_with_place(scene, draws)] * 2
    if draws.percent(12):
        growths.append(lambda event: _with_partner(scene, event, draws))
    if draws.percent(30):
        growths.append(lambda event: _with_place_adjective(event, draws))
    return growths


def _with_place(scene: Scene, draws: Draws) -> Callable[[Event], Event]:
    def grow(event: Event) -> Event:
        if event.place:
            return event
        noun = draws.pick(scene.places)
        number: Number = "many" if noun in PLURAL_ONLY else "one"
        return replace(event, place=(PLACES[noun], Phrase(noun, number)))

    return grow


def _with_subject_adjective(event: Event, draws: Draws) -> Event:
    if len(event.subjects) != 1 or not (adjectives := adjectives_of(event.subjects[0].noun)):
        return event
    subject = replace(event.subjects[0], adjective=draws.pick(adjectives))
    return replace(event, subjects=(subject,))


def _with_object_adjective(event: Event, adjectives: tuple[str, ...], draws: Draws) -> Event:
    if not event.object or not adjectives:
        return event
    return replace(event, object=replace(event.object, adjective=draws.pick(adjectives)))


def _with_place_adjective(event: Event, draws: Draws) -> Event:
    if not event.place or not (adjectives := adjectives_of(event.place[1].noun)):
        return event
    preposition, phrase = event.place
    return replace(event, place=(preposition, replace(phrase, adjective=draws.pick(adjectives))))


def _with_partner(scene: Scene, event: Event, draws: Draws) -> Event:
    """A second subject: "a boy and a girl"."""
    if len(event.subjects) != 1 or event.subjects[0].adjective or not event.shareable:
        return event
    others = [noun for noun in scene.subjects if noun != event.subjects[0].noun]
    if not others or event.second:
        return event
    return replace(event, subjects=(*event.subjects, Phrase(draws.pick(others))))
