"""Reading a text for concepts, against a reading of the whole text at once."""

from __future__ import annotations

import itertools
from collections import deque

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from damcha_core.decoding import constraints
from damcha_core.decoding.constraints import ConceptReader, Constraints

N_TOKENS = 6
STARTS = [True, True, True, True, False, False]
"""Tokens 0 to 3 may follow a word, 4 and 5 go on with one."""

WORDS = st.lists(st.integers(4, 5), max_size=2).flatmap(
    lambda rest: st.integers(0, 3).map(lambda first: (first, *rest))
)
FORMS = st.lists(WORDS, min_size=1, max_size=2).map(lambda words: sum(words, ()))
CONCEPTS = st.lists(st.lists(FORMS, min_size=1, max_size=2, unique=True), min_size=1, max_size=4)
TEXTS = st.lists(st.integers(0, N_TOKENS - 1), max_size=12).map(tuple)


def reader(*concepts) -> ConceptReader:
    return ConceptReader(concepts, [*STARTS, True, False])


def read_at_once(concepts, text) -> set[int]:
    """Leftmost longest, then the concept of the fewest forms, then the first."""
    placed: set[int] = set()
    at = 0
    while at < len(text):
        here = [
            (-len(form), len(forms), c)
            for c, forms in enumerate(concepts)
            for form in forms
            if c not in placed and text[at : at + len(form)] == form
            if at + len(form) == len(text) or STARTS[text[at + len(form)]]
        ]
        if here:
            length, _, concept = min(here)
            placed.add(concept)
            at -= length
        else:
            at += 1
    return placed


def follow(read: ConceptReader, text):
    reading = (0, ())
    for token in text:
        reading = read.follow(reading, token)
    return reading


@settings(max_examples=400, deadline=None)
@given(CONCEPTS, TEXTS)
def test_token_by_token_is_the_whole_text_at_once(concepts, text) -> None:
    missing = set(range(len(concepts))) - read_at_once(concepts, text)
    assert set(reader(*concepts).unplaced(text)) == missing


@settings(max_examples=400, deadline=None)
@given(CONCEPTS, TEXTS)
def test_all_tokens_that_matter_are_named(concepts, text) -> None:
    read = reader(*concepts)
    reading = follow(read, text)
    named = read.next_tokens(reading)
    for token in set(range(N_TOKENS)) - named:
        other = N_TOKENS if STARTS[token] else N_TOKENS + 1
        assert read.follow(reading, token) == read.follow(reading, other)


def steps_to_the_end(read: ConceptReader, reading, most: int) -> int:
    """The fewest tokens after which all concepts are placed, by breadth-first search."""
    queue, seen = deque([(reading, 0)]), {reading}
    while queue:
        now, n = queue.popleft()
        if read.is_complete(now):
            return n
        for token in range(N_TOKENS):
            then = read.follow(now, token)
            if then not in seen and n < most:
                seen.add(then)
                queue.append((then, n + 1))
    return most + 1


def crowded(words, most_words: int, most_concepts: int):
    """Concepts that draw their forms from a few words, so that they share and overlap."""
    some = st.lists(words, min_size=1, max_size=3, unique=True)
    return some.flatmap(
        lambda few: st.lists(
            st.lists(
                st.lists(st.sampled_from(few), min_size=1, max_size=most_words).map(
                    lambda chosen: sum(chosen, ())
                ),
                min_size=1,
                max_size=2,
                unique=True,
            ),
            min_size=1,
            max_size=most_concepts,
        )
    )


SINGLE = st.lists(st.lists(WORDS, min_size=1, max_size=2, unique=True), min_size=1, max_size=3)
SEVERAL = st.lists(st.lists(FORMS, min_size=1, max_size=2, unique=True), min_size=1, max_size=2)
MOST = 12
"""More than the concepts of the strategies below need."""


@settings(max_examples=400, deadline=None)
@given(st.one_of(SINGLE, crowded(WORDS, 1, 3)), TEXTS)
@example([[(1,), (0, 4)], [(0, 4), (1, 4)]], (0,))
@example([[(1,), (0, 4)], [(0, 4), (1, 4)]], (2, 0))
@example([[(0,), (0, 4)], [(0, 4), (0, 4, 5)]], (0, 4))
@example([[(0, 4)], [(0, 4), (1,)], [(0, 4, 5)]], (0, 4))
def test_the_need_of_single_words_is_exact(concepts, text) -> None:
    read = reader(*concepts)
    reading = follow(read, text)
    assert read.need(reading) == steps_to_the_end(read, reading, 9)


OVERLAPS = [
    # Each of the two shortest forms behind the other is a form of the one behind.
    ([[(0,), (1, 0)], [(1,), (0, 1)]], (), 3),
    ([[(0,), (1, 0)], [(1,), (0, 1)]], (0,), 2),
    # The last tokens are a form of the first concept, but better two parts of the others.
    ([[(0, 1, 4, 2), (3,)], [(1, 4, 2, 5, 5)]], (0, 1, 4, 2), 3),
    ([[(1,), (1, 0, 4)], [(0, 4, 5)]], (1,), 3),
    ([[(1, 4, 4)], [(1, 4, 4), (1, 4, 4, 1)]], (), 6),
    # The text ends within two forms at once.
    ([[(0, 1, 2)], [(1, 3)]], (0, 1), 3),
    ([[(0, 1), (2,)], [(0, 1), (1, 2)]], (0,), 3),
]


@pytest.mark.parametrize(("concepts", "text", "n"), OVERLAPS)
def test_the_need_of_overlapping_forms(concepts, text, n) -> None:
    read = reader(*concepts)
    reading = follow(read, text)
    assert read.need(reading) == steps_to_the_end(read, reading, MOST) == n


several_words = given(st.one_of(SEVERAL, crowded(WORDS, 2, 2)), TEXTS)


@settings(max_examples=200, deadline=None)
@several_words
def test_the_need_is_never_too_small_and_can_be_kept(concepts, text) -> None:
    read = reader(*concepts)
    reading = follow(read, text)
    assert read.need(reading) >= steps_to_the_end(read, reading, MOST)
    while n := read.need(reading):
        after = [read.follow(reading, token) for token in read.next_tokens(reading)]
        reading = min(after, key=read.need)
        assert read.need(reading) <= n - 1
    assert read.is_complete(reading)


def test_a_need_that_is_not_settled_is_too_large_if_anything(monkeypatch) -> None:
    monkeypatch.setattr(constraints, "MOST_EXACT", 0)
    test_the_need_is_never_too_small_and_can_be_kept()


def test_a_token_between_two_forms_can_be_shorter_than_the_need() -> None:
    """'2 4' would go on to '2 4 2', a form of the first concept; the search offers no other."""
    read = reader([(2,), (2, 4, 2), (2, 2)], [(2, 2, 4), (2, 4), (2, 2)])
    assert read.unplaced((2, 4, 3, 2)) == ()
    reading = follow(read, (2, 4))
    assert steps_to_the_end(read, reading, MOST) == 2
    assert read.need(reading) == 3


def test_a_part_of_a_word_is_not_the_word() -> None:
    cat, egory, fish = 0, 4, 5
    read = reader([(cat,)])
    assert read.unplaced([cat]) == ()
    assert read.unplaced([cat, 1]) == ()
    assert read.unplaced([cat, egory]) == (0,)
    assert read.unplaced([cat, egory, cat]) == ()
    both = reader([(cat,)], [(cat, fish)])
    assert both.unplaced([cat, fish]) == (0,)
    assert both.unplaced([cat, fish, cat]) == both.unplaced([cat, cat, fish]) == ()


def test_no_token_serves_two_concepts() -> None:
    assert reader([(0,)], [(0,)]).unplaced([0, 1]) == (1,)
    assert reader([(0,)], [(0,)]).unplaced([0, 1, 0]) == ()
    assert reader([(0, 1)], [(1, 2)]).unplaced([0, 1, 2]) == (1,)
    assert reader([(0, 1)], [(1,)]).unplaced([0, 1]) == (1,)
    assert reader([(0, 1, 2)], [(1,)]).unplaced([0, 1, 3]) == (0,)


def test_a_form_serves_the_concept_of_the_fewest_forms() -> None:
    concepts = [[(0,), (1,)], [(0,)]]
    assert all(reader(*concepts).unplaced(t) == () for t in itertools.permutations([0, 1]))


def test_a_concept_without_forms_is_never_placed() -> None:
    assert reader([], [(0,)]).unplaced([0]) == (0,)


@pytest.mark.parametrize("form", [(), (6,), (-1,), (4,), (4, 0)])
def test_bad_forms_are_refused(form) -> None:
    with pytest.raises(ValueError, match="form"):
        Constraints([[[(0,), form]]], np.array(STARTS))
