"""Reading a text for concepts, against a reading of the whole text at once."""

from __future__ import annotations

import itertools
from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


SINGLE = st.lists(st.lists(WORDS, min_size=1, max_size=2, unique=True), min_size=1, max_size=3)


@settings(max_examples=200, deadline=None)
@given(SINGLE, TEXTS)
def test_the_need_of_single_words_is_exact(concepts, text) -> None:
    read = reader(*concepts)
    reading = follow(read, text)
    assert read.need(reading) == steps_to_the_end(read, reading, 9)


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
