"""Edit distance, and the known name that a mistyped one is taken for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damcha_core.catalog.names import choices, edit_distance, nearest, unknown_name

WORDS = st.text(alphabet="abcd", max_size=6)


@pytest.mark.parametrize(
    ("first", "second", "edits"),
    [
        ("", "", 0),
        ("", "abc", 3),
        ("epochs", "epoch", 1),
        ("epochs", "epocsh", 1),
        ("seed", "sead", 1),
        ("lr", "xlr", 1),
        ("kitten", "sitting", 3),
        ("ca", "abc", 3),  # optimal string alignment: no edit inside a swapped pair
    ],
)
def test_edit_distance_by_hand(first, second, edits):
    assert edit_distance(first, second) == edits


@settings(derandomize=True, max_examples=200, deadline=None)
@given(WORDS, WORDS)
def test_edit_distance_is_a_symmetric_bounded_distance(first, second):
    distance = edit_distance(first, second)
    assert distance == edit_distance(second, first)
    assert abs(len(first) - len(second)) <= distance <= max(len(first), len(second))
    assert (distance == 0) == (first == second)


def test_nearest_finds_a_slip_and_ignores_capitals():
    names = ("mha", "damcha", "damcha-static")
    assert nearest("damhca", names) == "damcha"
    assert nearest("MHA", names) == "mha"
    assert nearest("damcha_static", names) == "damcha-static"


def test_nearest_prefers_the_earlier_of_two_equally_close_names():
    assert nearest("ab", ("ax", "ay")) == "ax"
    assert nearest("ab", ("ay", "ax")) == "ay"


@pytest.mark.parametrize("name", ["", "zzz", "transformer", "x" * 65, "x" * 100_000])
def test_nearest_gives_nothing_for_names_that_are_near_none(name):
    assert nearest(name, ("mha", "damcha")) is None


def test_choices_lists_all_names_after_the_guess():
    assert choices("damca", ("mha", "damcha")) == "did you mean damcha? known: mha, damcha"
    assert choices("zzzz", ("mha", "damcha")) == "known: mha, damcha"


def test_unknown_name_is_one_printable_line():
    line = unknown_name("task", "dig\nits\x00" + "x" * 500, ("digits",))
    assert line.isprintable()
    assert len(line) < 200
