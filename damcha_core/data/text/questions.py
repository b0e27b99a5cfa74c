"""What a model is asked of a split, and the answers that count as right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from damcha_core.data.text.pairs import Pair


@dataclass(frozen=True)
class Question:
    """A source with its references.

    Attributes:
        source: the text to start from.
        references: texts that answer it, at least one, in the order of the data.
        pair: place of its first pair among those that were encoded.
    """

    source: str
    references: tuple[str, ...]
    pair: int


def questions(pairs: Iterable[Pair], *, grouped: bool) -> list[Question]:
    """The questions of a split.

    Args:
        pairs: those that were encoded, in that order.
        grouped: pairs with the same set of words as their source are one question with several
            references, wherever they stand. False: each pair is a question.

    Returns:
        Questions in the order of their first pair.
    """
    if not grouped:
        return [Question(source, (target,), place) for place, (source, target) in enumerate(pairs)]
    first: dict[tuple[str, ...], tuple[str, int]] = {}
    references: dict[tuple[str, ...], list[str]] = {}
    for place, (source, target) in enumerate(pairs):
        concepts = tuple(sorted(source.split()))
        first.setdefault(concepts, (source, place))
        references.setdefault(concepts, []).append(target)
    return [
        Question(source, tuple(references[concepts]), place)
        for concepts, (source, place) in first.items()
    ]
