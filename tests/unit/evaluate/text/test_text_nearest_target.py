"""The floor that copies the target of the most similar source."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

from damcha_core.data.text.pairs import ListedPairs
from damcha_core.evaluate.text.nearest_target import (
    index_sources,
    nearest_targets,
    spaced_pairs,
)

SOURCES = [
    "the dog runs home",
    "a cat sleeps in the sun",
    "the man bites the dog",
    "the dog bites the man",
    "rain",
    "the dog runs home",
]


def listed(sources: list[str]) -> ListedPairs:
    return ListedPairs("made", [(text, f"target {n}") for n, text in enumerate(sources)])


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("the dog runs home", 0),
        ("The Dog runs home!", 0),
        ("sleeping cat", 1),
        ("the man bites the dog", 2),
        ("the dog bites the man", 3),
        ("rain rain rain", 4),
        ("quite unlike", 0),
        ("", 0),
    ],
)
def test_nearest(query: str, place: int) -> None:
    found = nearest_targets(listed(SOURCES), [query])
    assert found == ([f"target {place}"], 6, 6)


def test_rare_words_decide() -> None:
    sources = ["the zebra", *["the house of the man"] * 20, "the of man the"]
    assert nearest_targets(listed(sources), ["the zebra of the man"]).targets == ["target 0"]


def test_ties_go_to_the_earliest() -> None:
    sources = ["x q", "b a", "c a", "d a", "a e"]
    assert nearest_targets(listed(sources), ["a"]).targets == ["target 1"]


def test_every_source_finds_itself() -> None:
    draw = random.Random(1)
    words = [f"w{n}" for n in range(50)]
    sources = list(dict.fromkeys(" ".join(draw.choices(words, k=6)) for _ in range(300)))
    found = nearest_targets(listed(sources), sources)
    assert found.targets == [f"target {n}" for n in range(len(sources))]


def test_similarity_is_the_cosine() -> None:
    def vector(text: str) -> np.ndarray:
        parts = text.split()
        found = [*parts, *pairwise(parts)]
        counts = np.array([found.count(feature) for feature in features], dtype=float)
        return counts * rarity

    def having(feature: object) -> int:
        return sum(feature in [*text.split(), *pairwise(text.split())] for text in SOURCES)

    features = list(
        dict.fromkeys(part for text in SOURCES for part in [*text.split(), *pairwise(text.split())])
    )
    rarity = np.array([1 + np.log(len(SOURCES) / having(feature)) for feature in features])
    query = "the man and the dog in the sun"
    expected = [vector(query) @ vector(text) / np.linalg.norm(vector(text)) for text in SOURCES]
    assert index_sources(SOURCES).similarities(query) == pytest.approx(np.array(expected))


def test_a_million_pairs_are_thinned_evenly() -> None:
    pairs = listed([f"s{n}" for n in range(103)])
    chosen = [target for _, target in spaced_pairs(pairs, 10)]
    assert chosen == [f"target {k * 103 // 10}" for k in range(10)]
    assert len(list(spaced_pairs(pairs, 103))) == len(list(spaced_pairs(pairs, 1000))) == 103
    found = nearest_targets(pairs, ["s50"], max_pairs=10)
    assert (found.n_used, found.n_pairs) == (10, 103)


def test_blank_sides_are_left_out() -> None:
    pairs = ListedPairs("made", [("a", ""), (" ", "b"), ("a", "c"), ("", "")])
    assert nearest_targets(pairs, ["a", ""]) == (["c", "c"], 1, 4)
    assert nearest_targets(ListedPairs("made", [("", "")]), ["a"]) == ([""], 0, 1)
    assert nearest_targets(ListedPairs("made", []), ["a"]) == ([""], 0, 0)
    assert nearest_targets(ListedPairs("made", [("a", "b")]), []) == ([], 1, 1)


def test_source_of_signs_alone() -> None:
    assert nearest_targets(listed(["?", "!", "..."]), ["!"]).targets == ["target 1"]
