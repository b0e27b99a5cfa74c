"""Concepts to text without a file: concept sets and sentences of a small grammar of our own.

Everything is made by code (see the package `concepts_grammar`) and is the same on every machine.
A source is 3 to 5 base forms in an order shuffled once per set ("park chase dog"), a target a
sentence with all of them ("A dog is chasing a ball in the park."), one row a sentence.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import combinations
from pathlib import Path

from damcha_core.data.notify import Notify, no_notice
from damcha_core.data.text.concepts_grammar.event import MIN_CONCEPTS, Event, draw_event
from damcha_core.data.text.concepts_grammar.scene import all_scenes
from damcha_core.data.text.concepts_grammar.sentence import tellings
from damcha_core.data.text.draws import Draws
from damcha_core.data.text.pairs import ListedPairs, Pair, TextData

SIZES = {"train": 8000, "valid": 400, "test": 400}
"""Concept sets of each split."""

# How often each word of a held-out set must be in the training sets.
_KNOWN = 8
_REFERENCES, _REFERENCE_WEIGHTS = (1, 2, 3, 4), (20, 30, 30, 20)
_Set = frozenset[str]


def load_concepts(
    *,
    root: str | Path = "",
    source_lang: str = "",
    target_lang: str = "",
    notify: Notify = no_notice,
) -> TextData:
    """The concept sets: 8,000 train, 400 valid, 400 test, each with 1 to 4 sentences.

    No set of valid or test contains, or is contained in, any other set of the three splits, and
    each of its words is in at least 8 training sets: known words in new combinations.

    Args:
        root: not used, nothing is read.
        source_lang: not used.
        target_lang: not used.
        notify: not used, it takes about a second.
    """
    return TextData(_splits())


@cache
def _splits() -> dict[str, ListedPairs]:
    events = _draw_events(sum(SIZES.values()))
    held_out = _hold_out(list(events), SIZES["valid"] + SIZES["test"])
    split_of = dict.fromkeys(events, "train")
    split_of.update(dict.fromkeys(held_out[: SIZES["valid"]], "valid"))
    split_of.update(dict.fromkeys(held_out[SIZES["valid"] :], "test"))
    draws = Draws("concepts: sentences")
    rows: dict[str, list[Pair]] = {split: [] for split in SIZES}
    for key, event in events.items():
        rows[split_of[key]] += _rows(event, draws)
    return {split: ListedPairs(f"concepts ({split})", rows[split]) for split in SIZES}


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


def _rows(event: Event, draws: Draws) -> list[Pair]:
    source = " ".join(draws.shuffled(sorted(event.concepts)))
    left = dict(tellings(event))
    chosen: list[str] = []
    for _ in range(min(draws.weighted(_REFERENCES, _REFERENCE_WEIGHTS), len(left))):
        chosen.append(draws.weighted(list(left), list(left.values())))
        del left[chosen[-1]]
    return [(source, sentence) for sentence in chosen]
