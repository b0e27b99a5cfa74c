"""The readings of a batch of texts as numbers, so that a step looks them up all at once.

Shapes: S states, E tokens that matter in a state, R rows (texts that go on), K tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from damcha_core.decoding.constraints import ConceptReader, Reading

Ids = NDArray[np.int64]

DEAD = -1
"""The state after a token that may not come: it would go on with a word that is to end."""

UNKNOWN = -2


class ConstraintStates:
    """A table of states that grows as texts reach them.

    Args:
        readers: the reader of each prompt.
        starts_word: bool (V), True for tokens that may follow a complete word.
    """

    def __init__(self, readers: Sequence[ConceptReader], starts_word: NDArray[np.bool_]) -> None:
        self._readers = readers
        self._starts_word = starts_word
        self._numbers: dict[tuple[int, Reading], int] = {}
        self._readings: list[tuple[int, Reading]] = []
        self._need: list[int] = []
        self._row_of: list[int] = []
        self._n_visited = 0
        self._tokens = np.full((16, 4), -1, np.int64)
        self._next = np.full((16, 4), UNKNOWN, np.int64)
        # After a token that is in no form: one that may follow a word, or one that may not.
        self._other = np.full((16, 2), UNKNOWN, np.int64)
        self._flags = np.zeros((16, 2), np.bool_)
        self.first_P = np.array([self._number(p, (0, ())) for p in range(len(readers))])

    def need(self, states: Ids) -> Ids:
        """Tokens that suffice to place what the states lack; a huge number for DEAD."""
        needs = np.array([*self._need, np.iinfo(np.int64).max])
        found: Ids = needs[states]
        return found

    def visit(self, state_R: Ids) -> Ids:
        """Work out the tokens that matter in these states.

        Returns:
            Rows (R) of the states in the other methods' tables.
        """
        for state in np.unique(state_R).tolist():
            if self._row_of[state] == UNKNOWN:
                self._expand(state)
        return np.array(self._row_of, np.int64)[state_R]

    def is_complete(self, visited_R: Ids) -> NDArray[np.bool_]:
        """Whether a text that ends in these states has placed all concepts that have forms."""
        return self._flags[visited_R, 0]

    def is_word(self, visited_R: Ids) -> NDArray[np.bool_]:
        """Whether the states wait for a word to end."""
        return self._flags[visited_R, 1]

    def tokens(self, visited_R: Ids) -> tuple[Ids, Ids]:
        """Tokens (R, E) that matter and the states after them; -1 and UNKNOWN where none is."""
        return self._tokens[visited_R], self._next[visited_R]

    def follow(self, visited_R: Ids, ids_RK: Ids) -> tuple[Ids, NDArray[np.bool_]]:
        """The states (R, K) after tokens, and whether a token is one of those that matter."""
        same_RKE = ids_RK[:, :, None] == self._tokens[visited_R][:, None, :]
        matters_RK = same_RKE.any(-1)
        own_RK = np.take_along_axis(self._next[visited_R], same_RKE.argmax(-1), 1)
        inside_RK = 1 - self._starts_word[ids_RK].astype(np.int64)
        other_RK = self._other[visited_R[:, None], inside_RK]
        return np.where(matters_RK, own_RK, other_RK), matters_RK

    def _number(self, prompt: int, reading: Reading) -> int:
        key = (prompt, reading)
        if key not in self._numbers:
            self._numbers[key] = len(self._readings)
            self._readings.append(key)
            self._need.append(self._readers[prompt].need(reading))
            self._row_of.append(UNKNOWN)
        return self._numbers[key]

    def _expand(self, state: int) -> None:
        prompt, reading = self._readings[state]
        reader, n_vocab = self._readers[prompt], len(self._starts_word)
        is_word = reader.is_word(reading)
        tokens = sorted(reader.next_tokens(reading))
        after = []
        for token in [*tokens, n_vocab, n_vocab + 1]:
            if reader.may_follow(reading, token):
                after.append(self._number(prompt, reader.follow(reading, token)))
            else:
                after.append(DEAD)
        row = self._n_visited
        self._make_room(row, len(tokens))
        self._tokens[row, : len(tokens)] = tokens
        self._next[row, : len(tokens)] = after[:-2]
        self._other[row] = after[-2:]
        self._flags[row] = reader.is_complete(reading), is_word
        self._row_of[state] = row
        self._n_visited += 1

    def _make_room(self, row: int, n_tokens: int) -> None:
        n_rows, width = self._tokens.shape
        more_rows = n_rows if row == n_rows else 0
        more = ((0, more_rows), (0, max(n_tokens - width, 0)))
        if more != ((0, 0), (0, 0)):
            self._tokens = np.pad(self._tokens, more, constant_values=-1)
            self._next = np.pad(self._next, more, constant_values=UNKNOWN)
            self._other = np.pad(self._other, (more[0], (0, 0)), constant_values=UNKNOWN)
            self._flags = np.pad(self._flags, (more[0], (0, 0)))
