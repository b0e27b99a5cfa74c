"""The known name that a mistyped one was most likely meant to be."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST_NAME = 64  # no known name comes near it, and the comparison costs length x length


def edit_distance(first: str, second: str) -> int:
    """Number of single-letter edits between two names.

    An edit inserts, drops or replaces one letter, or swaps two neighbours (the optimal string
    alignment distance), so that the commonest slips of typing all cost 1.

    Args:
        first: any text.
        second: any text.

    Returns:
        0 for equal texts, at most the length of the longer one.
    """
    before_previous: list[int] = []
    previous = list(range(len(second) + 1))
    for i, letter in enumerate(first, start=1):
        current = [i]
        for j, other in enumerate(second, start=1):
            cost = min(
                previous[j] + 1,
                current[j - 1] + 1,
                previous[j - 1] + (letter != other),
            )
            swapped = i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other
            if swapped:
                cost = min(cost, before_previous[j - 2] + 1)
            current.append(cost)
        before_previous, previous = previous, current
    return previous[-1]


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate closest to a name, or None when none is close.

    Args:
        name: what was typed; capitals do not count.
        candidates: known names; of two equally close ones the earlier wins.

    Returns:
        A candidate at most a third of the name's length away (one edit for short names).
    """
    if len(name) > LONGEST_NAME:
        return None
    typed = name.casefold()
    limit = max(1, round(len(typed) / 3))
    best: str | None = None
    for candidate in candidates:
        if abs(len(candidate) - len(typed)) > limit:
            continue
        distance = edit_distance(typed, candidate.casefold())
        if distance < limit or (distance == limit and best is None):
            best, limit = candidate, distance
    return best


def choices(name: str, known: Iterable[str]) -> str:
    """The names that would have done, with the nearest one first where one is close.

    Args:
        name: what was typed.
        known: all names that would do.

    Returns:
        Such as "did you mean mha? known: mha, damcha".
    """
    names = tuple(known)
    guess = nearest(name, names)
    hint = f"did you mean {guess}? " if guess else ""
    return f"{hint}known: {', '.join(names)}"


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """One line that refuses a name and says which names there are.

    Args:
        kind: what the name stands for, such as "attention".
        name: what was typed.
        known: all names that would do.

    Returns:
        The line.
    """
    return f"there is no {kind} called {name[:LONGEST_NAME]!a}; {choices(name, known)}"
