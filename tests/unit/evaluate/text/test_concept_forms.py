"""Forms of concepts for constrained decoding."""

from __future__ import annotations

import pytest

from damcha_core.data.text.tokenizer_training import train_tokenizer
from damcha_core.evaluate.text.concept_forms import (
    concept_forms,
    concepts_of,
    word_forms,
    word_starts,
)
from damcha_core.evaluate.text.coverage import stemmed


@pytest.mark.parametrize(
    ("word", "forms"),
    [
        ("dog", ("dog", "dogs", "doged", "doging", "dogged", "dogging")),
        ("ride", ("ride", "rides", "rided", "riding")),
        ("carry", ("carry", "carries", "carried", "carrying")),
        ("play", ("play", "plays", "played", "playing")),
        ("watch", ("watch", "watches", "watched", "watching")),
        ("see", ("see", "sees", "seed", "seeing")),
        ("x", ("x",)),
        ("3d", ("3d",)),
    ],
)
def test_regular_inflections(word: str, forms: tuple[str, ...]) -> None:
    assert word_forms(word) == forms


@pytest.mark.parametrize("word", ["dog", "ride", "carry", "see", "jump", "box", "stop", "hat"])
def test_the_forms_that_are_placed_are_those_that_coverage_counts(word: str) -> None:
    tokenizer = train_tokenizer(["a b c d e f g h i"] * 30, vocab_size=300).tokenizer
    forms = [tokenizer.decode(tokens) for tokens in concept_forms(word, tokenizer)[0]]
    assert forms[0] == word
    assert len(forms) >= 3
    assert all(stemmed([form]) == stemmed([word]) for form in forms)
    assert "seed" not in forms


def test_forms_are_tokens_of_whole_words() -> None:
    tokenizer = train_tokenizer(["dog dogs ball, park"] * 30, vocab_size=300).tokenizer
    forms = concept_forms("dog ball dog", tokenizer)
    assert len(forms) == len(concepts_of("dog ball dog")) == 2
    assert tokenizer.decode(forms[0][1]) == "dogs"
    starts = word_starts(tokenizer)
    assert all(starts[form[0]] for concept in forms for form in concept)
    assert starts[tokenizer.eos_id]
    pieces = {tokenizer.piece(token): starts[token] for token in range(tokenizer.vocab_size)}
    assert pieces[","]
    assert not pieces["s"]
    assert not pieces["<0x41>"]
