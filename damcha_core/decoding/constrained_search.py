"""Beam search for texts that hold given concepts.

After "Fast Lexically Constrained Decoding with Dynamic Beam Allocation for Neural Machine
Translation" (arXiv 1804.06609): beside its most probable tokens every text is offered the tokens
that get on with a concept, and the slots of a prompt are shared out among banks of candidates
that still need equally many tokens for their concepts. Different from there, a candidate that
could no longer place all of its concepts within the limit is refused, so that the last slots of
a text are kept for them, and a prompt has at least as many slots as banks.

Shapes: R rows (unfinished texts, those of a prompt one after the other), P prompts, C candidates
of a row, E tokens that matter for its concepts, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from damcha_core.decoding.constraint_states import DEAD, ConstraintStates
from damcha_core.decoding.constraints import ConceptReader, Constraints, Form
from damcha_core.decoding.finished_pool import FinishedPool
from damcha_core.decoding.finite_scores import refuse_nan
from damcha_core.decoding.hypothesis import Hypothesis
from damcha_core.decoding.next_token import NextTokenModel
from damcha_core.decoding.search_task import SearchTask
from damcha_core.decoding.single_path import is_closing, is_cut
from damcha_core.decoding.top_tokens import TopTokens, top_tokens

Ids = NDArray[np.int64]

MOST_SLOTS = 32
"""Slots that a prompt gets for its banks; a wider beam gets as many as it is wide."""


@dataclass(frozen=True)
class Unfinished:
    """Texts that go on.

    Attributes:
        prompt: (R), the prompt of each, in ascending order.
        log_p: (R), log-probability so far; descending within a prompt.
        tokens: (R, T), tokens so far.
        state: (R), state of the concepts.
    """

    prompt: Ids
    log_p: NDArray[np.float64]
    tokens: Ids
    state: Ids


@dataclass(frozen=True)
class Candidates:
    """Continuations of the unfinished texts.

    Attributes:
        row: the row that each goes on from.
        token: the token it adds.
        log_p: log-probability with it.
        state: state of the concepts after it; that of its row for the end mark.
        need: tokens that suffice to place the concepts it lacks.
    """

    row: Ids
    token: Ids
    log_p: NDArray[np.float64]
    state: Ids
    need: Ids

    def at(self, places: Ids | NDArray[np.bool_]) -> Candidates:
        """Some of the candidates."""
        return Candidates(
            self.row[places],
            self.token[places],
            self.log_p[places],
            self.state[places],
            self.need[places],
        )


def constrained_search(
    model: NextTokenModel,
    prompts: Sequence[Sequence[int]],
    task: SearchTask,
    constraints: Constraints,
) -> list[list[Hypothesis]]:
    """The n best texts for each prompt that hold its concepts.

    Where the limit is too small for all concepts, those with the shortest forms are placed.
    Tokens of a concept are exempt from the rule against repeated runs.

    Args:
        model: of the next token.
        prompts: at least one, each with at least one token.
        task: what the search is about.
        constraints: the concepts of each prompt.

    Returns:
        For each prompt up to n_best hypotheses: those that lack the fewest concepts first, then
        by score. `unplaced` lists what a text lacks.

    Raises:
        NonFiniteError: the model gives NaN.
    """
    return _ConstrainedSearch(model, task, constraints).run(prompts)


class _ConstrainedSearch:
    """One search; `run` is called once."""

    def __init__(self, model: NextTokenModel, task: SearchTask, constraints: Constraints) -> None:
        self.model = model
        self.task = task
        self.end_id = task.rules.end_id
        starts_word = [*constraints.starts_word.tolist(), True, False]
        usable = [
            [[tuple(f) for f in forms if not task.rules.forbids(f)] for forms in concepts]
            for concepts in constraints.concepts
        ]
        required = [
            _fitting(concepts, int(limit), starts_word)
            for concepts, limit in zip(usable, task.limits, strict=True)
        ]
        self.all_readers = [ConceptReader(concepts, starts_word) for concepts in usable]
        self.readers = [ConceptReader(concepts, starts_word) for concepts in required]
        self.states = ConstraintStates(self.readers, constraints.starts_word)
        banks_P = self.states.need(self.states.first_P) + 1
        self.slots_P = np.maximum(np.minimum(banks_P, MOST_SLOTS), task.settings.beam)
        n_absent = [sum(not forms for forms in concepts) for concepts in required]
        self.pool = FinishedPool(task, np.array(n_absent, np.int64))
        self._inside_V = torch.from_numpy(~constraints.starts_word)
        self._inside_V[self.end_id] = False

    def run(self, prompts: Sequence[Sequence[int]]) -> list[list[Hypothesis]]:
        n = len(prompts)
        logits_RV = self.model.begin(prompts)
        empty = np.zeros((n, 0), np.int64)
        live = Unfinished(np.arange(n), np.zeros(n), empty, self.states.first_P)
        while True:
            visited_R = self.states.visit(live.state)
            top, concept_RE = self._scores(logits_RV, live, visited_R)
            closed_R = self._close(live, top, concept_RE)
            candidates = self._candidates(live, visited_R, top, concept_RE)
            candidates = candidates.at(self._is_fit(live, candidates, closed_R))
            taken = self._allocate(live, candidates)
            is_end = taken.token == self.end_id
            for row, log_p in zip(taken.row[is_end], taken.log_p[is_end], strict=True):
                self._finish(live, int(row), float(log_p), cut=False)
            live, rows = self._next(live, taken.at(~is_end))
            if not len(rows):
                return self.pool.best()
            tokens_R = torch.from_numpy(live.tokens[:, -1].copy())
            logits_RV = self.model.advance(torch.from_numpy(rows), tokens_R)

    def _scores(
        self, logits_RV: Tensor, live: Unfinished, visited_R: Ids
    ) -> tuple[TopTokens, NDArray[np.float64]]:
        """The most probable tokens of each row, and the log-probabilities of its concepts'."""
        log_p_RV = self.task.rules.log_probabilities(logits_RV, live.tokens)
        ids_RE = np.maximum(self.states.tokens(visited_R)[0], 0)
        ids_RE = np.concatenate([np.full((len(ids_RE), 1), self.end_id), ids_RE], 1)
        more_RE = log_p_RV.gather(1, torch.from_numpy(ids_RE).to(log_p_RV.device))
        self.task.rules.close_ways(log_p_RV, live.tokens)
        is_word_R = self.states.is_word(visited_R)
        if is_word_R.any():
            if self._inside_V.device != log_p_RV.device:
                self._inside_V = self._inside_V.to(log_p_RV.device)
            must_end_R1 = torch.from_numpy(is_word_R).to(log_p_RV.device)[:, None]
            log_p_RV.masked_fill_(must_end_R1 & self._inside_V, -torch.inf)
        # One more than the slots, for the end mark has a column of its own.
        top = top_tokens(log_p_RV, int(self.slots_P[live.prompt].max()) + 1, more_RE)
        refuse_nan(top.log_p[:, 0])
        return top, np.where(self.states.tokens(visited_R)[0] < 0, -np.inf, top.more[:, 1:])

    def _close(
        self, live: Unfinished, top: TopTokens, concept_RE: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Finish the texts that can only take the end mark, and say which these are."""
        best_R, end_R = top.log_p[:, 0], top.more[:, 0]
        at_limit_R = self.task.limits[live.prompt] == live.tokens.shape[1]
        closed_R = is_closing(at_limit_R, np.maximum(best_R, concept_RE.max(1)))
        cut_R = is_cut(end_R, best_R, top.ids[:, 0], self.end_id)
        for row in np.flatnonzero(closed_R):
            log_p = float(live.log_p[row] + end_R[row])
            self._finish(live, int(row), log_p, cut=bool(cut_R[row]))
        return closed_R

    def _finish(self, live: Unfinished, row: int, log_p: float, *, cut: bool) -> None:
        prompt, tokens = int(live.prompt[row]), live.tokens[row]
        # A concept that there was no room for may have come by itself.
        readers = (self.readers[prompt], self.all_readers[prompt])
        unplaced = min((reader.unplaced(tokens.tolist()) for reader in readers), key=len)
        self.pool.add(prompt, self.task.hypothesis(tokens, log_p, cut=cut, unplaced=unplaced))

    def _candidates(
        self,
        live: Unfinished,
        visited_R: Ids,
        top: TopTokens,
        concept_RE: NDArray[np.float64],
    ) -> Candidates:
        """The end mark, the tokens of concepts and the most probable others of each row."""
        state_RK, matters_RK = self.states.follow(visited_R, top.ids)
        ids_RE, state_RE = self.states.tokens(visited_R)
        may_end_R1 = self.states.is_complete(visited_R)[:, None]
        if live.tokens.shape[1] < self.task.settings.min_new_tokens:
            may_end_R1 = np.zeros_like(may_end_R1)
        # A concept's token is taken from its own column, where no repeated run closes it.
        is_other_RK = ~matters_RK & (top.ids != self.end_id) & (top.log_p > -np.inf)
        is_valid_RC = np.concatenate(
            [may_end_R1, (ids_RE >= 0) & (state_RE != DEAD), is_other_RK & (state_RK != DEAD)], 1
        )
        ends_R1 = np.full_like(live.state[:, None], self.end_id)
        row, column = np.nonzero(is_valid_RC)
        state = np.concatenate([live.state[:, None], state_RE, state_RK], 1)[row, column]
        log_p_RC = np.concatenate([top.more[:, :1], concept_RE, top.log_p], 1)
        return Candidates(
            row,
            np.concatenate([ends_R1, ids_RE, top.ids], 1)[row, column],
            live.log_p[row] + log_p_RC[row, column],
            state,
            np.where(column == 0, 0, self.states.need(state)),
        )

    def _is_fit(
        self, live: Unfinished, candidates: Candidates, closed_R: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Which candidates can still place their concepts within the limit."""
        n_left = self.task.limits[live.prompt[candidates.row]] - live.tokens.shape[1] - 1
        is_open = ~closed_R[candidates.row]
        is_fit = is_open & ((candidates.need <= n_left) | (candidates.token == self.end_id))
        # A complete text that is still too short to end may have none but tokens that spoil a
        # form on offer; then any is better than none, and the text says what it lacks.
        has_fit_P = np.zeros(len(self.slots_P), np.bool_)
        has_fit_P[live.prompt[candidates.row[is_fit]]] = True
        fit: NDArray[np.bool_] = is_fit | (is_open & ~has_fit_P[live.prompt[candidates.row]])
        return fit

    def _allocate(self, live: Unfinished, candidates: Candidates) -> Candidates:
        """Share the free slots of each prompt out among its banks.

        The best of each bank come first, then the second best and so on; a bank that runs out
        leaves its slots to the others, and what is over goes to those that need the fewest tokens.
        """
        c, prompt = candidates, live.prompt[candidates.row]
        order = np.lexsort((c.token, c.row, -c.log_p, c.need, prompt))
        rank = _place_in_group(prompt[order], c.need[order])
        by_rank = np.lexsort((c.need[order], rank, prompt[order]))
        order = order[by_rank]
        free_P = self.slots_P - self.pool.count_P
        is_taken = _place_in_group(prompt[order]) < free_P[prompt[order]]
        taken = c.at(order[is_taken])
        return taken.at(np.lexsort((taken.token, taken.row, -taken.log_p, live.prompt[taken.row])))

    def _next(self, live: Unfinished, taken: Candidates) -> tuple[Unfinished, Ids]:
        """The texts that go on, and the rows that they go on from."""
        prompt_R = live.prompt[taken.row]
        group_R = np.cumsum(np.diff(prompt_R, prepend=-1) > 0) - 1
        first_R = np.flatnonzero(np.diff(prompt_R, prepend=-1) > 0)
        # The first text of a prompt is its most probable one, so it has the best prospects.
        goes_on_R = self.pool.is_beatable(prompt_R, taken.log_p)[first_R][group_R]
        goes_on_R &= self.pool.count_P[prompt_R] < self.slots_P[prompt_R]
        taken = taken.at(goes_on_R)
        tokens_RT = np.concatenate([live.tokens[taken.row], taken.token[:, None]], 1)
        return Unfinished(prompt_R[goes_on_R], taken.log_p, tokens_RT, taken.state), taken.row


def _place_in_group(*keys: Ids) -> Ids:
    """The place of each entry among those with the same keys, which stand one after the other."""
    n = len(keys[0])
    is_new = np.ones(n, np.bool_)
    is_new[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    starts: Ids = np.maximum.accumulate(np.where(is_new, np.arange(n), 0))
    return np.arange(n) - starts


def _fitting(
    concepts: Sequence[Sequence[Form]], limit: int, starts_word: Sequence[bool]
) -> list[Sequence[Form]]:
    """The concepts, without the forms of those that a text of so many tokens has no room for.

    The shortest are kept, and of equally long ones the first.
    """
    if ConceptReader(concepts, starts_word).need((0, ())) <= limit:
        return list(concepts)
    lengths = [min(map(len, forms), default=0) for forms in concepts]
    kept: list[Sequence[Form]] = [()] * len(concepts)
    n_tokens = 0
    for concept in sorted(range(len(concepts)), key=lambda c: (lengths[c], c)):
        n_tokens += lengths[concept]
        if n_tokens > limit:
            break
        more = [*kept]
        more[concept] = concepts[concept]
        # Together they may need more than their shortest forms have.
        if ConceptReader(more, starts_word).need((0, ())) <= limit:
            kept = more
        else:
            n_tokens -= lengths[concept]
    return kept
