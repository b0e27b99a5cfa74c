"""Beam search.

Each prompt has as many slots as the beam is wide. At each step the best continuations of its
unfinished texts take the free slots; one that takes the end mark is finished and keeps its slot.
All of them have the same number of tokens, so that the length penalty, the same for finished and
unfinished texts, ranks them as their log-probabilities do. A search is over when no slot is free,
or when no unfinished text can still come among the n best that are finished.

Shapes: R rows (unfinished texts, those of a prompt one after the other), P prompts, S unfinished
texts of a prompt, K continuations of a text, V vocabulary, T text tokens so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from damcha_core.decoding.finished_pool import FinishedPool
from damcha_core.decoding.finite_scores import refuse_nan
from damcha_core.decoding.hypothesis import Hypothesis
from damcha_core.decoding.next_token import NextTokenModel
from damcha_core.decoding.search_task import SearchTask
from damcha_core.decoding.single_path import is_closing, is_cut
from damcha_core.decoding.top_tokens import TopTokens, top_tokens

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Unfinished:
    """Texts that go on.

    Attributes:
        prompt: (R), the prompt of each, in ascending order.
        log_p: (R), log-probability so far; descending within a prompt.
        tokens: (R, T), tokens so far.
    """

    prompt: Ids
    log_p: NDArray[np.float64]
    tokens: Ids


def beam_search(
    model: NextTokenModel, prompts: Sequence[Sequence[int]], task: SearchTask
) -> list[list[Hypothesis]]:
    """The n best texts that a beam finds for each prompt.

    Of equal candidates the one of the earliest (more probable) parent is taken, and of one
    parent's the lowest token id. Width 1 is greedy search.

    Args:
        model: of the next token.
        prompts: at least one, each with at least one token.
        task: what the search is about.

    Returns:
        For each prompt up to n_best hypotheses, best first; fewer where there are no more texts.

    Raises:
        NonFiniteError: the model gives NaN.
    """
    pool = FinishedPool(task)
    logits_RV = model.begin(prompts)
    n = len(prompts)
    live = Unfinished(np.arange(n), np.zeros(n), np.zeros((n, 0), np.int64))
    while True:
        log_p_RV = task.rules.log_probabilities(logits_RV, live.tokens)
        end_R1 = log_p_RV[:, task.rules.end_id, None].clone()
        task.rules.close_ways(log_p_RV, live.tokens)
        free_R = task.settings.beam - pool.count_P[live.prompt]
        top = top_tokens(log_p_RV, int(free_R.max()), end_R1)
        refuse_nan(top.log_p[:, 0])
        closed_R = _close(live, top, task, pool)
        parents, tokens, log_p = _continuations(live, top, closed_R, free_R)
        is_end = tokens == task.rules.end_id
        for i in np.flatnonzero(is_end):
            text = task.hypothesis(live.tokens[parents[i]], float(log_p[i]))
            pool.add(int(live.prompt[parents[i]]), text)
        rows = parents[~is_end]
        texts_RT = np.concatenate([live.tokens[rows], tokens[~is_end, None]], 1)
        live = Unfinished(live.prompt[rows], log_p[~is_end], texts_RT)
        goes_on = _goes_on(live, task.settings.beam, pool)
        rows = rows[goes_on]
        if not len(rows):
            return pool.best()
        live = Unfinished(
            live.prompt[goes_on], live.log_p[goes_on], np.ascontiguousarray(texts_RT[goes_on])
        )
        tokens_R = torch.from_numpy(live.tokens[:, -1].copy())
        logits_RV = model.advance(torch.from_numpy(rows), tokens_R)


def _close(
    live: Unfinished, top: TopTokens, task: SearchTask, pool: FinishedPool
) -> NDArray[np.bool_]:
    """Finish the texts that can only take the end mark, and say which these are."""
    best_R, end_R = top.log_p[:, 0], top.more[:, 0]
    closed_R = is_closing(task.limits[live.prompt] == live.tokens.shape[1], best_R)
    cut_R = is_cut(end_R, best_R, top.ids[:, 0], task.rules.end_id)
    for row in np.flatnonzero(closed_R):
        log_p = float(live.log_p[row] + end_R[row])
        text = task.hypothesis(live.tokens[row], log_p, cut=bool(cut_R[row]))
        pool.add(int(live.prompt[row]), text)
    return closed_R


def _continuations(
    live: Unfinished, top: TopTokens, closed_R: NDArray[np.bool_], free_R: Ids
) -> tuple[Ids, Ids, NDArray[np.float64]]:
    """The best continuations of each prompt: rows they go on from, tokens, log-probabilities."""
    n_rows, n_tokens = top.ids.shape
    starts_R = np.diff(live.prompt, prepend=-1) > 0
    first_P = np.flatnonzero(starts_R)
    group_R = starts_R.cumsum() - 1
    place_R = np.arange(n_rows) - first_P[group_R]
    log_p_PSK = np.full((len(first_P), int(place_R.max()) + 1, n_tokens), -np.inf)
    log_p_PSK[group_R, place_R] = live.log_p[:, None] + top.log_p
    log_p_PSK[group_R[closed_R], place_R[closed_R]] = -np.inf
    # A closed text has taken a slot of its prompt.
    free_P = free_R[first_P] - np.bincount(group_R, weights=closed_R).astype(np.int64)
    log_p_PC = log_p_PSK.reshape(len(first_P), -1)
    order_PC = np.argsort(-log_p_PC, axis=1, kind="stable")[:, : max(int(free_P.max()), 0)]
    sorted_PC = np.take_along_axis(log_p_PC, order_PC, 1)
    taken_PC = (np.arange(order_PC.shape[1]) < free_P[:, None]) & (sorted_PC > -np.inf)
    prompts, ranks = np.nonzero(taken_PC)
    places = order_PC[prompts, ranks]
    parents = first_P[prompts] + places // n_tokens
    return parents, top.ids[parents, places % n_tokens], sorted_PC[prompts, ranks]


def _goes_on(live: Unfinished, beam: int, pool: FinishedPool) -> NDArray[np.bool_]:
    """Which unfinished texts belong to a prompt whose search is not over."""
    # The first text of a prompt is its most probable one, so it has the best prospects.
    is_first_R = np.diff(live.prompt, prepend=-1) > 0
    group_R = is_first_R.cumsum() - 1
    beatable_R = pool.is_beatable(live.prompt, live.log_p)
    is_free_R = pool.count_P[live.prompt] < beam
    goes_on: NDArray[np.bool_] = beatable_R[is_first_R][group_R] & is_free_R
    return goes_on
