"""BLEU-1 to 4, CIDEr and ROUGE-L beyond the golden values: rules, extremes, a slow version."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damcha_core.evaluate.text.caption_bleu import (
    bleu_values,
    caption_bleu,
    item_statistics,
    ngram_counts,
)
from damcha_core.evaluate.text.cider import cider
from damcha_core.evaluate.text.rouge_l import common_subsequence, rouge_l, rouge_l_of
from damcha_core.evaluate.text.text_score import TextScore

Scorer = Callable[[list[list[str]], list[list[list[str]]]], TextScore]
SCORERS: dict[str, Scorer] = {
    "bleu4": lambda hypotheses, references: caption_bleu(hypotheses, references)[3],
    "cider": cider,
    "rouge_l": rouge_l,
}
# BLEU's constants keep a little off both ends.
BEST = {"bleu4": 1.0, "cider": 10.0, "rouge_l": 1.0}


def words(*texts: str) -> list[list[str]]:
    return [text.split() for text in texts]


HYPOTHESES = words("a dog runs over the bridge", "two cats sleep in the sun", "rain falls")
REFERENCES = [
    words("a dog runs over the old bridge"),
    words("two cats sleep in the sun all day", "cats lie in the sun", "the cats sleep", "two cats"),
    words("rain falls", "it rains today"),
]


@pytest.mark.parametrize("name", SCORERS)
def test_one_four_and_two_references(name: str) -> None:
    score = SCORERS[name](HYPOTHESES, REFERENCES)
    assert score.n == 3
    assert score.items is not None
    assert len(score.items) == 3
    first_only = SCORERS[name](HYPOTHESES, [of_item[:1] for of_item in REFERENCES])
    assert first_only.items != score.items
    assert score.notices == ()
    assert score.signature


@pytest.mark.parametrize("name", SCORERS)
def test_perfect_outputs(name: str) -> None:
    texts = words("a dog runs over the bridge", "two cats sleep in the sun")
    score = SCORERS[name](texts, [[text] for text in texts])
    assert score.value == pytest.approx(BEST[name], abs=1e-6)


@pytest.mark.parametrize("name", SCORERS)
def test_blank_outputs_and_references(name: str) -> None:
    references = [words("a dog runs home today"), words("", "two cats sleep now")]
    blank = SCORERS[name]([[], []], references)
    assert blank.value == pytest.approx(0.0, abs=1e-12)
    assert blank.n == 2
    blank_reference = SCORERS[name](words("a dog runs", "a cat"), [words(""), words("")])
    assert blank_reference.value == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize("name", SCORERS)
def test_no_items(name: str) -> None:
    assert SCORERS[name]([], []).value is None
    with pytest.raises(ValueError, match="Item 0 has no reference"):
        SCORERS[name]([["a"]], [[]])


@pytest.mark.parametrize("name", SCORERS)
def test_order_of_the_items_does_not_matter(name: str) -> None:
    score = SCORERS[name](HYPOTHESES, REFERENCES)
    turned = SCORERS[name](HYPOTHESES[::-1], REFERENCES[::-1])
    assert turned.value == score.value
    assert turned.items is not None
    assert turned.items[::-1] == score.items


def test_ngrams() -> None:
    assert ngram_counts(["a", "b", "a"]) == {
        ("a",): 2, ("b",): 1, ("a", "b"): 1, ("b", "a"): 1, ("a", "b", "a"): 1,
    }  # fmt: skip
    assert ngram_counts([]) == {}


def test_bleu_statistics() -> None:
    references = words("the dog the", "the big dog runs far off")
    row = item_statistics(["the", "the", "the", "dog"], references)
    # Three and six words are at distance one and two from four; "the" counts twice at most.
    assert row == [4, 3, 3, 1, 0, 0, 4, 3, 2, 1]
    assert item_statistics(["a"] * 4, words("b b b b b", "b b b"))[1] == 3


def test_bleu_of_one_item_without_a_4gram_match() -> None:
    value = caption_bleu(words("a b c d e"), [words("a b c x e")])[3].value
    assert value is not None
    assert 1e-5 < value < 1e-3


def test_bleu_penalty_of_a_short_output() -> None:
    scores = caption_bleu(words("a b c d"), [words("a b c d e f g h")])
    for score in scores:
        assert score.value == pytest.approx(math.exp(-1), abs=1e-6)
    assert bleu_values(np.zeros((1, 10))).tolist() == [0.0]


def test_cider_of_a_single_item_is_zero_and_says_so() -> None:
    score = cider(words("a dog"), [words("a dog")])
    assert score.value == 0.0
    assert "single item" in score.notices[0]


def test_cider_depends_on_the_set() -> None:
    part = cider(HYPOTHESES[:2], REFERENCES[:2])
    whole = cider(HYPOTHESES, REFERENCES)
    assert part.items is not None
    assert whole.items is not None
    assert part.items != whole.items[:2]


def test_cider_against_its_definition() -> None:
    def vector(text: list[str], order: int) -> dict[tuple[str, ...], float]:
        found: dict[tuple[str, ...], float] = {}
        for at in range(len(text) - order + 1):
            ngram = tuple(text[at : at + order])
            having = sum(
                any(
                    ngram == tuple(other[k : k + order])
                    for other in of_item
                    for k in range(len(other))
                )
                for of_item in REFERENCES
            )
            found[ngram] = found.get(ngram, 0.0) + math.log(3) - math.log(max(1, having))
        return found

    def near(text: list[str], other: list[str]) -> float:
        total = 0.0
        for order in range(1, 5):
            mine, theirs = vector(text, order), vector(other, order)
            norm = math.hypot(*mine.values()) * math.hypot(*theirs.values())
            dot = sum(min(w, theirs.get(k, 0.0)) * theirs.get(k, 0.0) for k, w in mine.items())
            total += dot / norm if norm else 0.0
        # Lengths in bigrams, one fewer than words in each.
        return total / 4 * math.exp(-((len(text) - len(other)) ** 2) / 72)

    expected = [
        10 * sum(near(text, other) for other in of_item) / len(of_item)
        for text, of_item in zip(HYPOTHESES, REFERENCES, strict=True)
    ]
    assert cider(HYPOTHESES, REFERENCES).items == pytest.approx(expected, abs=1e-12)


@settings(max_examples=200, deadline=None)
@given(st.text("abc", max_size=80), st.text("abcd", max_size=80))
def test_common_subsequence_against_the_recursion(first: str, second: str) -> None:
    @functools.cache
    def longest(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return 0
        if first[i - 1] == second[j - 1]:
            return longest(i - 1, j - 1) + 1
        return max(longest(i - 1, j), longest(i, j - 1))

    for i in range(len(first) + 1):
        longest(i, len(second))
    assert common_subsequence(list(first), list(second)) == longest(len(first), len(second))


def test_rouge_takes_precision_and_recall_from_different_references() -> None:
    # Precision 4/4 from the long reference, recall 2/2 from the short one.
    assert rouge_l_of(list("abcd"), words("a b c d e f g h", "a b")) == pytest.approx(1.0)
    assert rouge_l_of(["a"], words("b", "c d")) == 0.0
    precision, recall = 1.0, 0.5
    expected = (1 + 1.44) * precision * recall / (recall + 1.44 * precision)
    assert rouge_l_of(["a", "b"], words("a x b y")) == pytest.approx(expected)


def test_thousands_of_items() -> None:
    draw = random.Random(1)
    texts = [draw.choices("abcdefghij", k=12) for _ in range(1000)]
    references = [[text[::-1], text, text[:6], text[3:]] for text in texts]
    for scorer in SCORERS.values():
        score = scorer(texts, references)
        assert score.n == 1000
        assert score.value is not None
        assert math.isfinite(score.value)
