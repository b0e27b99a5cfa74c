"""Concepts that a text must hold, and how to tell that it does.

A concept is placed where one of its forms stands as a whole word or words. Texts are read from
the left: at each place the longest form of a concept that is not placed yet counts, then reading
goes on behind it, so that no token serves two concepts. A form that several concepts have serves
the one with the fewest forms, then the first.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Form = tuple[int, ...]
"""Token ids of a word or a few words."""

Reading = tuple[int, Form]
"""Which concepts a text has placed (one bit each), and its last tokens, which may yet become a
form or are one that waits for its word to end; () if neither."""

MOST_EXACT = 2000
"""Readings that `need` looks at for the shortest way; after that the next best way will do."""


@dataclass(frozen=True)
class Constraints:
    """Concepts to place, in any order.

    Attributes:
        concepts: for each prompt its concepts, for each concept its forms (the ways to write it),
            for each form its token ids. A concept that is listed twice is placed twice. A form
            with a forbidden token cannot be written and counts as absent.
        starts_word: bool (V), True for tokens that may follow a complete word: those that start a
            new word, and punctuation. The first token of every form is one.
    """

    concepts: Sequence[Sequence[Sequence[Sequence[int]]]]
    starts_word: NDArray[np.bool_]

    def __post_init__(self) -> None:
        """Check the forms.

        Raises:
            ValueError: a form is empty, holds an unknown id or starts inside a word.
        """
        n_vocab = len(self.starts_word)
        for form in (f for prompt in self.concepts for concept in prompt for f in concept):
            if not len(form) or not all(0 <= token < n_vocab for token in form):
                raise ValueError(f"a form needs tokens between 0 and {n_vocab - 1}, not {form}")
            if not self.starts_word[form[0]]:
                raise ValueError(f"token {form[0]} of the form {form} does not start a word")


class ConceptReader:
    """Reads a text token by token for the concepts of one prompt.

    Args:
        concepts: forms of each concept; one without forms is never placed.
        starts_word: for each token whether it may follow a complete word; as a list, with True
            and False appended, which stand for tokens that no form has.
    """

    def __init__(self, concepts: Sequence[Sequence[Form]], starts_word: Sequence[bool]) -> None:
        self._starts_word = starts_word
        self._n_forms = [len(set(forms)) for forms in concepts]
        self._lengths = [min(map(len, forms), default=0) for forms in concepts]
        self._needs: dict[Reading, int] = {}
        self._by_first: dict[int, list[tuple[Form, int]]] = {}
        entries = {(tuple(form), c) for c, forms in enumerate(concepts) for form in forms}
        for form, concept in sorted(entries, key=self._preference):
            self._by_first.setdefault(form[0], []).append((form, concept))

    def _preference(self, entry: tuple[Form, int]) -> tuple[int, int, int, Form]:
        form, concept = entry
        return -len(form), self._n_forms[concept], concept, form

    def follow(self, reading: Reading, token: int) -> Reading:
        """The reading after one more token."""
        placed, tail = reading[0], (*reading[1], token)
        while tail and not self._goes_on(placed, tail):
            placed, tail = self._resolve(placed, tail, False)
        return placed, tail

    def ended(self, reading: Reading) -> int:
        """The concepts placed if the text ends here."""
        placed, tail = reading
        while tail:
            placed, tail = self._resolve(placed, tail, True)
        return placed

    def is_complete(self, reading: Reading) -> bool:
        """Whether all concepts that have forms are placed if the text ends here."""
        return self._cost(self.ended(reading)) == 0

    def need(self, reading: Reading) -> int:
        """Tokens that suffice to place all concepts which the reading lacks.

        They are counted along a text of `next_tokens`, which the search always has on offer: from
        every reading that needs n > 0 tokens one of these leads to a reading that needs at most
        n - 1. The count is never too small. It is the smallest one where the forms are single
        words. Where forms of several words overlap, a text with another token between two forms
        can be shorter; and where MOST_EXACT readings did not settle the smallest one, the next
        best way counts.

        Needs are kept, those of the readings on the way too, so most calls are a lookup.
        """
        if reading not in self._needs:
            way, rest = self._shortest_way(reading)
            for n, passed in enumerate(reversed(way)):
                self._needs[passed] = rest + n
        return self._needs[reading]

    def may_follow(self, reading: Reading, token: int) -> bool:
        """Whether a token does not go on with a word that is to end, or does so in a form."""
        starts = self._starts_word[token]
        return starts or not self.is_word(reading) or token in self.next_tokens(reading)

    def is_word(self, reading: Reading) -> bool:
        """Whether the last tokens are a form that waits for its word to end."""
        placed, tail = reading
        return any(form == tail for form, _ in self._open(placed, tail)) if tail else False

    def next_tokens(self, reading: Reading) -> set[int]:
        """Tokens that start a form or go on with one; no other token has a part in any form."""
        placed, tail = reading
        tokens = {
            forms[0][0][0]
            for forms in self._by_first.values()
            if any(not placed >> concept & 1 for _, concept in forms)
        }
        for start in range(len(tail)):
            part = tail[start:]
            tokens |= {f[len(part)] for f, _ in self._open(placed, part) if len(f) > len(part)}
        return tokens

    def unplaced(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """The concepts that a whole text lacks, by their places in the list."""
        reading: Reading = (0, ())
        for token in tokens:
            reading = self.follow(reading, token)
        placed = self.ended(reading)
        return tuple(c for c in range(len(self._lengths)) if not placed >> c & 1)

    def _cost(self, placed: int) -> int:
        return sum(n for concept, n in enumerate(self._lengths) if not placed >> concept & 1)

    def _shortest_way(self, start: Reading) -> tuple[list[Reading], int]:
        """Readings from this one to one whose need is known or 0, and the need of that one.

        A* search. The queue cannot run empty before: to write a form that is lacking places its
        concept, or another one that is lacking and has a longer form there.
        """
        came_from: dict[Reading, Reading | None] = {start: None}
        n_so_far = {start: 0}
        queue = [(self._least(start), 0, start)]
        n_seen = 0
        while True:
            _, _, now = heapq.heappop(queue)
            rest = 0 if self.is_complete(now) else self._needs.get(now)
            if rest is not None:
                break
            n_seen += 1
            n = n_so_far[now] + 1
            for token in sorted(self.next_tokens(now)):
                then = self.follow(now, token)
                if n < n_so_far.get(then, n + 1):
                    n_so_far[then], came_from[then] = n, now
                    least = self._needs.get(then, self._least(then))
                    total = least if n_seen > MOST_EXACT else n + least
                    heapq.heappush(queue, (total, -n, then))
        way: list[Reading] = []
        passed: Reading | None = now
        while passed is not None:
            way.append(passed)
            passed = came_from[passed]
        return way[::-1], rest

    def _least(self, reading: Reading) -> int:
        """A bound below the need: what is lacking, less what the last tokens may yet serve."""
        placed, tail = reading
        served = len(tail)
        if not any(self._starts_word[token] for token in tail[1:]):
            # Only forms that begin with all of these tokens can have any of them.
            saved = (
                self._lengths[concept] - (len(form) - len(tail))
                for form, concept in (self._open(placed, tail) if tail else ())
            )
            served = max(0, max(saved, default=0))
        return max(0, self._cost(placed) - served)

    def _open(self, placed: int, tail: Form) -> list[tuple[Form, int]]:
        """Forms of concepts not placed that begin with these tokens."""
        return [
            (form, concept)
            for form, concept in self._by_first.get(tail[0], ())
            if not placed >> concept & 1 and form[: len(tail)] == tail
        ]

    def _goes_on(self, placed: int, tail: Form) -> bool:
        return bool(self._open(placed, tail))

    def _resolve(self, placed: int, tail: Form, has_ended: bool) -> Reading:
        """Decide what the first of the last tokens belongs to: to a form, or to none."""
        for form, concept in self._by_first.get(tail[0], ()):
            n = len(form)
            if placed >> concept & 1 or tail[:n] != form:
                continue
            if self._starts_word[tail[n]] if n < len(tail) else has_ended:
                return placed | 1 << concept, tail[n:]
        return placed, tail[1:]
