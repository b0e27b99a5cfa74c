"""Concept coverage: whole words, stems, phrases, repeated concepts, blanks."""

from __future__ import annotations

import pytest

from damcha_core.evaluate.text.caption_tokens import caption_tokens
from damcha_core.evaluate.text.coverage import concept_coverage, concept_coverage_of


@pytest.mark.parametrize(
    ("text", "concepts", "share"),
    [
        ("Two dogs ran.", ["dog"], 1.0),
        ("One dog.", ["dogs"], 1.0),
        ("Each category counts.", ["cat"], 0.0),
        ("The DOG is riding.", ["dog", "ride"], 1.0),
        ("He ran home.", ["run"], 0.0),
        ("They eat ice cream.", ["ice cream"], 1.0),
        ("Two ice creams, please.", ["ice cream"], 1.0),
        ("Cream on ice.", ["ice cream"], 0.0),
        ("Ice and cream.", ["ice cream"], 0.0),
        ("A dog.", ["dog", "dog", "cat"], 0.5),
        ("A dog.", ["dog", "Dogs", "cat"], 0.5),
        ("", ["dog", "cat"], 0.0),
        ("  ", ["dog"], 0.0),
        ("A dog.", ["", " ", "dog"], 1.0),
        ("dog, cat; bird!", ["dog", "cat", "bird", "fish"], 0.75),
        ("A snow-covered hill.", ["snow"], 0.0),
        ("A dog.", [], None),
        ("A dog.", [" "], None),
    ],
)
def test_rule(text: str, concepts: list[str], share: float | None) -> None:
    assert concept_coverage_of(caption_tokens(text), concepts) == share


def test_exact_words() -> None:
    assert concept_coverage_of(["dogs"], ["dog"], stem=False) == 0.0
    assert concept_coverage_of(["dogs"], ["Dogs"], stem=False) == 1.0


def test_set() -> None:
    outputs = [caption_tokens(text) for text in ("A dog and a cat.", "A dog.", "", "Nothing.")]
    scores = concept_coverage(outputs, [["dog", "cat"], ["dog", "cat"], ["dog"], []])
    assert scores.fraction.items == (1.0, 0.5, 0.0, None)
    assert scores.fraction.value == 0.5
    assert scores.fraction.n == 3
    assert scores.all_covered.items == (1.0, 0.0, 0.0, None)
    assert scores.all_covered.value == pytest.approx(1 / 3)
    assert scores.fraction.signature != scores.all_covered.signature
    with pytest.raises(ValueError, match="1 outputs but concepts for 2 items"):
        concept_coverage([["a"]], [["a"], ["b"]])
