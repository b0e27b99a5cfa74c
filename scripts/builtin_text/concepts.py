"""Concepts to text without a file: concept sets and sentences of a small grammar of our own.

Everything is made by code (see the package `concepts_grammar`) and is the same on every machine.
A source is 3 to 5 base forms in an order shuffled once per set ("park chase dog"), a target a
sentence with all of them ("A dog is chasing a ball in the park."), one row a sentence.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from builtin_text.concepts_grammar.event import MIN_CONCEPTS, Event, draw_event
from builtin_text.concepts_grammar.scene import all_scenes
from builtin_text.concepts_grammar.sentence import tellings
from builtin_text.draws import Draws

SIZES = {"train": 8000, "valid": 400, "test": 400}
"""Concept sets of each split."""

# How often each word of a held-out set must be in the training sets.
_KNOWN = 8
_REFERENCES, _REFERENCE_WEIGHTS = (1, 2, 3, 4), (20, 30, 30, 20)
_Set = frozenset[str]


def concept_pairs() -> dict[str, list[tuple[str, str]]]:
    """The pairs of each split: 1 to 4 sentences a set, those of a set in succession.

    No set of valid or test contains, or is contained in, any other set of the three splits, and
    each of its words is in at least 8 training sets.

    Returns:
        Lists in the order of SIZES.
    """
    events = _draw_events(sum(SIZES.values()))
    held_out = _hold_out(list(events), SIZES["valid"] + SIZES["test"])
    split_of = dict.fromkeys(events, "train")
    split_of.update(dict.fromkeys(held_out[: SIZES["valid"]], "valid"))
    split_of.update(dict.fromkeys(held_out[SIZES["valid"] :], "test"))
    draws = Draws("concepts: sentences")
    rows: dict[str, list[tuple[str, str]]] = {split: [] for split in SIZES}
    for key, event in events.items():
        rows[split_of[key]] += _rows(event, draws)
    return rows


def _draw_events(n: int) -> dict[_Set, Event]:
    """Events of n different sets, in the order in which they were drawn."""
    draws = Draws("concepts: sets")
    scenes = all_scenes()
    events: dict[_Set, Event] = {}
    while len(events) < n:
        event = draw_event(draws.pick(scenes), draws)
        if event is not None:
            events.setdefault(frozenset(event.concepts), event)
    return events


def _hold_out(sets: list[_Set], n: int) -> list[_Set]:
    """n sets to keep from training, chosen by chance among those fit for it."""
    related = _related(sets)
    counts = Counter(word for key in sets for word in key)
    held_out: list[_Set] = []
    for key in Draws("concepts: splits").shuffled(sets):
        if len(held_out) == n:
            break
        if key not in related and all(counts[word] > _KNOWN for word in key):
            held_out.append(key)
            counts.subtract(key)
    assert len(held_out) == n
    return held_out


def _related(sets: list[_Set]) -> set[_Set]:
    """Sets that contain another one or are contained in one."""
    known = set(sets)
    related: set[_Set] = set()
    for key in sets:
        for size in range(MIN_CONCEPTS, len(key)):
            inside = known.intersection(map(frozenset, combinations(sorted(key), size)))
            if inside:
                related.update(inside, [key])
    return related


def _rows(event: Event, draws: Draws) -> list[tuple[str, str]]:
    source = " ".join(draws.shuffled(sorted(event.concepts)))
    left = dict(tellings(event))
    chosen: list[str] = []
    for _ in range(min(draws.weighted(_REFERENCES, _REFERENCE_WEIGHTS), len(left))):
        chosen.append(draws.weighted(list(left), list(left.values())))
        del left[chosen[-1]]
    return [(source, sentence) for sentence in chosen]
