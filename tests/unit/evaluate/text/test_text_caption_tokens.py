"""Words of the caption metrics."""

from __future__ import annotations

import pytest

from damcha_core.evaluate.text.caption_tokens import caption_tokens, tokenise_items


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The dog, a big one; runs!", "the dog a big one runs"),
        ("mat .", "mat"),
        ("mat.", "mat"),
        ("It's “fine” – isn’t it…", "it 's fine is n't it"),
        ("snow-covered (old) [x] {y}", "snow-covered -lrb- old -rrb- -lsb- x -rsb- -lcb- y -rcb-"),
        ("5€ or £4", "5 $ or # 4"),
        ("ein Mädchen „lacht“", "ein mädchen lacht"),
        ("", ""),
        (" \t ", ""),
        ("...!?", ""),
        ("ice-cream and ice cream", "ice-cream and ice cream"),
    ],
)
def test_words(text: str, words: str) -> None:
    assert caption_tokens(text) == words.split()


def test_long_output_of_an_untrained_model() -> None:
    assert len(caption_tokens("the dog ( " * 1000)) == 3000
    assert caption_tokens("' \" . " * 1000) == []


def test_items() -> None:
    items = tokenise_items(["A cat."], [["Cats!", "One cat."]])
    assert items.hypotheses == (["a", "cat"],)
    assert items.references == ((["cats"], ["one", "cat"]),)
    with pytest.raises(ValueError, match="no reference"):
        tokenise_items(["a"], [[]])
