"""Which phrases there are, and which split each belongs to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache

from builtin_text.cldr.phrase import Phrase
from builtin_text.cldr.slots import SLOTS
from builtin_text.cldr.templates import TEMPLATES, Template
from builtin_text.draws import Draws
from damcha_core.data.randomness import stream_key

SIZES: Mapping[str, int] = {"train": 28_000, "valid": 500, "test": 1_000, "unseen": 1_000}
"""Phrases in each split."""
MIN_ITEM_COUNT = 20
"""How often each item of an evaluation split is in training, at least."""
MIN_PATTERN_COUNT = 50
"""How often each pattern of an evaluation split is in training, at least."""
MIN_ITEM_PATTERNS = 2
"""In how many patterns each item of an evaluation split is in training, at least."""

_ONE_HELD_OUT_IN = 10
# One in so many of the ordinary phrases is put aside for valid and test.
_ONE_PUT_ASIDE_IN = 14
# Phrases of unseen that hold the same held-out combination, at most: some are so common that they
# would be much of the split.
_MOST_ALIKE = 8


@cache
def is_held_out(pattern: str, item: str) -> bool:
    """Whether no phrase of training, valid and test has this item in this pattern.

    A hash of the two names decides, so an item or a template added later moves no other.
    """
    return stream_key(f"cldr held out\n{pattern}\n{item}")[0] % _ONE_HELD_OUT_IN == 0


def phrases() -> dict[str, list[Phrase]]:
    """All phrases, by split: train, valid, test, unseen.

    No two have the same English or the same German text. Train, valid and test hold no held-out
    combination of pattern and item; each phrase of unseen holds at least one, though its patterns
    and its items are in training, MIN_PATTERN_COUNT and MIN_ITEM_COUNT times or more.

    Returns:
        Lists in the order of SIZES.
    """
    train: list[Phrase] = []
    aside: list[Phrase] = []
    unseen: list[Phrase] = []
    draws = Draws("cldr split")
    alike: Counter[tuple[str, str]] = Counter()
    for phrase in _drawn():
        held_out = [item for item in phrase.items if is_held_out(phrase.pattern, item)]
        if held_out:
            combination = (phrase.pattern, held_out[0])
            alike[combination] += 1
            if alike[combination] <= _MOST_ALIKE:
                unseen.append(phrase)
        elif draws.below(_ONE_PUT_ASIDE_IN) == 0:
            aside.append(phrase)
        else:
            train.append(phrase)
            if len(train) == SIZES["train"]:
                break
    aside, unseen = _covered(aside, train), _covered(unseen, train)
    valid_end = SIZES["valid"]
    return {
        "train": train,
        "valid": aside[:valid_end],
        "test": aside[valid_end : valid_end + SIZES["test"]],
        "unseen": unseen[: SIZES["unseen"]],
    }


def _drawn() -> Iterator[Phrase]:
    by_weight = [template for template in TEMPLATES for _ in range(template.weight)]
    draws = Draws("cldr phrases")
    seen_en: set[str] = set()
    seen_de: set[str] = set()
    while True:
        phrase = _fill(draws.pick(by_weight), draws)
        # An item twice would be "from Spain to Spain".
        if len(set(phrase.items)) < len(phrase.items):
            continue
        if phrase.en in seen_en or phrase.de in seen_de:
            continue
        seen_en.add(phrase.en)
        seen_de.add(phrase.de)
        yield phrase


def _fill(template: Template, draws: Draws) -> Phrase:
    fillings = {field: SLOTS[kind](draws) for field, kind in template.slots}
    en, de = (
        text.format(**{field: filling.render(language) for field, filling in fillings.items()})
        for language, text in (("en", template.en), ("de", template.de))
    )
    items = tuple(item for filling in fillings.values() for item in filling.items)
    return Phrase(template.name, items, en, de)


def _covered(candidates: list[Phrase], train: list[Phrase]) -> list[Phrase]:
    items = Counter(item for phrase in train for item in phrase.items)
    patterns = Counter(phrase.pattern for phrase in train)
    combinations = {(phrase.pattern, item) for phrase in train for item in phrase.items}
    item_patterns = Counter(item for _, item in combinations)
    return [
        phrase
        for phrase in candidates
        if patterns[phrase.pattern] >= MIN_PATTERN_COUNT
        and all(items[item] >= MIN_ITEM_COUNT for item in phrase.items)
        and all(item_patterns[item] >= MIN_ITEM_PATTERNS for item in phrase.items)
    ]
