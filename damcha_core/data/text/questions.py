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
        pairs: places of its pairs among those that were encoded, one a reference.
    """

    source: str
    references: tuple[str, ...]
    pairs: tuple[int, ...]


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
        return [
            Question(source, (target,), (place,)) for place, (source, target) in enumerate(pairs)
        ]
    sources: dict[tuple[str, ...], str] = {}
    answers: dict[tuple[str, ...], list[tuple[str, int]]] = {}
    for place, (source, target) in enumerate(pairs):
        concepts = tuple(sorted(source.split()))
        sources.setdefault(concepts, source)
        answers.setdefault(concepts, []).append((target, place))
    return [
        Question(
            source,
            tuple(target for target, _ in answers[concepts]),
            tuple(place for _, place in answers[concepts]),
        )
        for concepts, source in sources.items()
    ]
