"""The phrases as they are made: what each split holds, and that they depend on no machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pytest
from builtin_text.cldr.corpus import (
    MIN_ITEM_COUNT,
    MIN_ITEM_PATTERNS,
    MIN_PATTERN_COUNT,
    SIZES,
    is_held_out,
    phrases,
)
from builtin_text.cldr.phrase import Phrase

ROOT = Path(__file__).parents[3]
EVALUATED = ("valid", "test", "unseen")


@pytest.fixture(scope="module")
def by_split() -> dict[str, list[Phrase]]:
    return phrases()


def combinations(phrase: Phrase) -> set[tuple[str, str]]:
    return {(phrase.pattern, item) for item in phrase.items}


def test_sizes(by_split):
    assert {name: len(found) for name, found in by_split.items()} == dict(SIZES)


def test_no_phrase_is_in_two_splits_nor_twice_in_one(by_split):
    everything = [phrase for found in by_split.values() for phrase in found]
    assert len({phrase.en for phrase in everything}) == len(everything)
    assert len({phrase.de for phrase in everything}) == len(everything)


def test_every_side_is_one_line_of_text(by_split):
    for found in by_split.values():
        for text in (text for phrase in found for text in (phrase.en, phrase.de)):
            assert text.strip() == text != ""
            assert len(text.splitlines()) == 1
            assert "\t" not in text
            assert "{" not in text


def test_unseen_holds_new_combinations_alone(by_split):
    known = {pair for phrase in by_split["train"] for pair in combinations(phrase)}
    for phrase in by_split["unseen"]:
        assert combinations(phrase) - known
        assert any(is_held_out(phrase.pattern, item) for item in phrase.items)
    for name in ("train", "valid", "test"):
        for phrase in by_split[name]:
            assert not any(is_held_out(phrase.pattern, item) for item in phrase.items)


def test_what_is_evaluated_is_well_covered_by_training(by_split):
    train = by_split["train"]
    items = Counter(item for phrase in train for item in phrase.items)
    patterns = Counter(phrase.pattern for phrase in train)
    item_patterns = Counter(
        item for _, item in {pair for phrase in train for pair in combinations(phrase)}
    )
    for name in EVALUATED:
        for phrase in by_split[name]:
            assert patterns[phrase.pattern] >= MIN_PATTERN_COUNT
            assert all(items[item] >= MIN_ITEM_COUNT for item in phrase.items)
            assert all(item_patterns[item] >= MIN_ITEM_PATTERNS for item in phrase.items)


def test_about_a_tenth_of_the_combinations_is_held_out(by_split):
    drawn = {
        pair
        for name in ("train", "unseen")
        for phrase in by_split[name]
        for pair in combinations(phrase)
    }
    share = sum(is_held_out(*pair) for pair in drawn) / len(drawn)
    assert 0.05 < share < 0.15


def test_unseen_is_of_many_combinations_patterns_and_kinds_of_item(by_split):
    held_out = Counter(
        pair for phrase in by_split["unseen"] for pair in combinations(phrase) if is_held_out(*pair)
    )
    assert len(held_out) > 150
    assert len({pattern for pattern, _ in held_out}) > 40
    assert {"territory", "language", "money", "unit", "month"} <= {
        item.split(":")[0] for _, item in held_out
    }


def test_no_phrase_names_an_item_twice(by_split):
    for name in SIZES:
        for phrase in by_split[name]:
            assert len(set(phrase.items)) == len(phrase.items)


def test_target_is_seldom_a_copy_of_the_source(by_split):
    test = by_split["test"]
    assert sum(phrase.en == phrase.de for phrase in test) < 0.03 * len(test)


def test_pairs_depend_on_no_setting_of_the_machine(by_split):
    # Another process with another time zone, locale and hash seed makes the first 2,000.
    code = (
        "from hashlib import sha256\n"
        "from builtin_text.cldr import corpus\n"
        "corpus.SIZES = {**corpus.SIZES, 'train': 2000}\n"
        "train = corpus.phrases()['train']\n"
        "print(sha256(repr([(p.en, p.de) for p in train]).encode()).hexdigest())"
    )
    settings = {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "LANG": "tr_TR", "PYTHONHASHSEED": "7"}
    output = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'scripts'}", **settings},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    first = repr([(phrase.en, phrase.de) for phrase in by_split["train"][:2000]])
    assert output.strip() == sha256(first.encode()).hexdigest()
