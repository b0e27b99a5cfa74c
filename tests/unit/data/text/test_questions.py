"""Questions with their references, and the plain sources of pairs."""

from __future__ import annotations

import pytest

from damcha_core.data.text.pairs import ListedPairs, TextData
from damcha_core.data.text.questions import Question, questions
from damcha_core.errors import UsageError

CONCEPTS = [
    ("dog ball", "A dog has a ball."),
    ("cat", "A cat sleeps."),
    ("ball dog", "The ball is the dog's."),
    ("dog ball", "Dogs love balls."),
    ("cat", "The cat is here."),
]


def test_each_pair_of_a_translation_is_a_question():
    pairs = [("one", "eins"), ("two", "zwei"), ("one", "ein")]
    assert questions(pairs, grouped=False) == [
        Question("one", ("eins",), (0,)),
        Question("two", ("zwei",), (1,)),
        Question("one", ("ein",), (2,)),
    ]


def test_pairs_of_one_concept_set_are_one_question_wherever_they_stand():
    assert questions(CONCEPTS, grouped=True) == [
        Question("dog ball", tuple(CONCEPTS[place][1] for place in (0, 2, 3)), (0, 2, 3)),
        Question("cat", ("A cat sleeps.", "The cat is here."), (1, 4)),
    ]


def test_the_hash_of_listed_pairs_is_that_of_their_content():
    one = ListedPairs("a", CONCEPTS)
    assert one.content_hash == ListedPairs("b", list(CONCEPTS)).content_hash
    assert one.content_hash != ListedPairs("a", CONCEPTS[:-1]).content_hash
    assert (len(one), list(one), one.name) == (5, CONCEPTS, "a")


def test_a_split_that_is_not_there_says_why():
    data = TextData({"train": ListedPairs("x", CONCEPTS)}, absent={"test": "it is hidden"})
    assert data.split("train").name == "x"
    with pytest.raises(UsageError, match="no split 'test': it is hidden"):
        data.split("test")
    with pytest.raises(UsageError, match="no split 'other': choose train"):
        data.split("other")
