"""The built-in phrases: what each split holds, and that they are the same everywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import babel
import pytest

from damcha_core.data.text.cldr.corpus import (
    MIN_ITEM_COUNT,
    MIN_ITEM_PATTERNS,
    MIN_PATTERN_COUNT,
    SIZES,
    is_held_out,
    phrases,
)
from damcha_core.data.text.cldr.load import load_cldr
from damcha_core.data.text.cldr.phrase import Phrase
from damcha_core.data.text.pairs import ListedPairs, TextData
from damcha_core.errors import UsageError

ROOT = Path(__file__).parents[4]
EVALUATED = ("valid", "test", "unseen")
# Of Babel 2.19.0: both sides of all pairs, English first.
PUBLISHED = {
    "train": "ce03b006866378aab43659f6ac121f887955f3b93dcbb88210c179a8748d8908",
    "valid": "9a7db2c4b44af60a72d856b149361b8d7dd83b8da676bf9bc3f90debb2b12b18",
    "test": "293bf66fb7719afad11b18fc47ff00bf68fcb577f87f6ee77a7827237921d842",
    "unseen": "2f164098f4df0661c2f464b07c99400eb6799038908d849f4aaa06b33373c006",
}


@pytest.fixture(scope="module")
def told() -> list[tuple[str, int, int]]:
    """What is reported while `by_split` is made."""
    return []


@pytest.fixture(scope="module")
def by_split(told) -> dict[str, list[Phrase]]:
    return phrases(lambda *report: told.append(report))


@pytest.fixture(scope="module")
def load(by_split) -> Iterator[Callable[..., TextData]]:
    """load_cldr with phrases that were made once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("damcha_core.data.text.cldr.load.phrases", lambda notify: by_split)
        yield load_cldr


@pytest.fixture(scope="module")
def data(load) -> TextData:
    return load()


def combinations(phrase: Phrase) -> set[tuple[str, str]]:
    return {(phrase.pattern, item) for item in phrase.items}


def test_sizes(data):
    assert {name: len(source) for name, source in data.splits.items()} == dict(SIZES)
    assert data.split("test").name == "cldr test"


def test_no_phrase_is_in_two_splits_nor_twice_in_one(data):
    pairs = [pair for source in data.splits.values() for pair in source]
    assert len({source for source, _ in pairs}) == len(pairs)
    assert len({target for _, target in pairs}) == len(pairs)


def test_every_side_is_one_line_of_text(data):
    for source in data.splits.values():
        for text in (side for pair in source for side in pair):
            assert text.strip() == text != ""
            assert len(text.splitlines()) == 1
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


def test_target_is_seldom_a_copy_of_the_source(data):
    pairs = list(data.split("test"))
    assert sum(source == target for source, target in pairs) < 0.03 * len(pairs)


def test_other_direction_is_the_same_pairs_turned(data, load):
    turned = load(source_lang="de", target_lang="en")
    for name, source in data.splits.items():
        assert [(b, a) for a, b in source] == list(turned.split(name))


@pytest.mark.parametrize(
    ("source_lang", "target_lang"), [("en", "fr"), ("fr", "de"), ("en", "en"), ("", "de")]
)
def test_other_languages_are_refused(source_lang, target_lang):
    with pytest.raises(UsageError, match="English and German") as refusal:
        load_cldr(source_lang=source_lang, target_lang=target_lang)
    assert 'data.source_lang = "en"' in str(refusal.value)


def test_origin_tells_babel_and_cldr(data):
    assert data.origin["babel"] == babel.__version__
    assert data.origin["cldr"] == "unknown" or int(data.origin["cldr"].split(".")[0]) >= 40


def test_origin_without_a_cldr_release(load, monkeypatch):
    monkeypatch.delattr("babel.core.get_cldr_version", raising=False)
    assert load().origin["cldr"] == "unknown"


def test_progress_is_told(by_split, told):
    counts = [done for _, done, _ in told]
    assert counts == sorted(counts)
    assert counts[-1] == SIZES["train"]
    assert {total for _, _, total in told} == {SIZES["train"]}


def test_pairs_depend_on_no_setting_of_the_machine(data):
    # Another process with another time zone, locale and hash seed makes the first 2,000.
    code = (
        "from damcha_core.data.text.cldr import corpus, load\n"
        "corpus.SIZES = {**corpus.SIZES, 'train': 2000}\n"
        "print(load.load_cldr().split('train').content_hash)"
    )
    settings = {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "LANG": "tr_TR", "PYTHONHASHSEED": "7"}
    output = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **settings},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    first = ListedPairs("first", list(data.split("train"))[:2000])
    assert output.strip() == first.content_hash


@pytest.mark.skipif(
    babel.__version__ != "2.19.0", reason="the stored hashes are of Babel 2.19.0 (CLDR 49)"
)
def test_pairs_are_those_of_the_other_machines(data):
    found = {name: source.content_hash for name, source in data.splits.items()}
    assert found == PUBLISHED
