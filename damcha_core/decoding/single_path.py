"""Texts that grow one token a step, each on its own: the loop of greedy search and of sampling.

Shapes: R rows (texts that go on), V vocabulary, T text tokens so far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from damcha_core.decoding.finite_scores import refuse_nan
from damcha_core.decoding.hypothesis import Hypothesis
from damcha_core.decoding.next_token import NextTokenModel
from damcha_core.decoding.search_task import SearchTask

Choice = Callable[[Tensor, NDArray[np.int64], int], Tensor]
"""Of log-probabilities (R, V), the prompts of the rows (R) and the step: token ids (R)."""


def follow_path(
    model: NextTokenModel, prompts: Sequence[Sequence[int]], task: SearchTask, choose: Choice
) -> list[list[Hypothesis]]:
    """One text for each prompt.

    Args:
        model: of the next token.
        prompts: at least one, each with at least one token.
        task: what the search is about.
        choose: how a token is chosen.

    Returns:
        A list of one hypothesis for each prompt.

    Raises:
        NonFiniteError: the model gives NaN.
    """
    found: list[list[Hypothesis]] = [[] for _ in prompts]
    logits_RV = model.begin(prompts)
    prompt_R = np.arange(len(prompts))
    log_p_R = np.zeros(len(prompts))
    text_RT = np.zeros((len(prompts), 0), np.int64)
    while True:
        log_p_RV = task.rules.log_probabilities(logits_RV, text_RT)
        end_R = log_p_RV[:, task.rules.end_id].clone()
        task.rules.close_ways(log_p_RV, text_RT)
        token_R = choose(log_p_RV, prompt_R, text_RT.shape[1]).to(log_p_RV.device)
        best_R, best_id_R = log_p_RV.max(dim=1)
        chosen_R = log_p_RV.gather(1, token_R[:, None])[:, 0]
        # One wait for the device a step; a float32 holds every id below 2**24.
        fetched = torch.stack([token_R.to(best_R), chosen_R, end_R, best_R, best_id_R.to(best_R)])
        token, chosen, end, best, best_id = fetched.cpu().numpy().astype(np.float64)
        refuse_nan(best)
        closing = is_closing(task.limits[prompt_R] == text_RT.shape[1], best)
        cut = closing & is_cut(end, best, best_id, task.rules.end_id)
        token_id = np.where(closing, task.rules.end_id, token).astype(np.int64)
        log_p_R = log_p_R + np.where(closing, end, chosen)
        for row in np.flatnonzero(token_id == task.rules.end_id):
            text = task.hypothesis(text_RT[row], float(log_p_R[row]), cut=bool(cut[row]))
            found[prompt_R[row]].append(text)
        rows = np.flatnonzero(token_id != task.rules.end_id)
        if not len(rows):
            return found
        token_id, prompt_R, log_p_R = token_id[rows], prompt_R[rows], log_p_R[rows]
        text_RT = np.concatenate([text_RT[rows], token_id[:, None]], 1)
        logits_RV = model.advance(torch.from_numpy(rows), torch.from_numpy(token_id))


def is_closing(at_limit_R: NDArray[np.bool_], best_R: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which texts can only take the end mark: at their limit, or no rule leaves them a token.

    Args:
        at_limit_R: which have as many tokens as they may.
        best_R: log-probability of the most probable token that the rules leave.
    """
    closing: NDArray[np.bool_] = at_limit_R | np.isneginf(best_R)
    return closing


def is_cut(
    end_R: NDArray[np.float64],
    best_R: NDArray[np.float64],
    best_id_R: NDArray[np.float64] | NDArray[np.int64],
    end_id: int,
) -> NDArray[np.bool_]:
    """Which texts would have gone on, had they been free to.

    Args:
        end_R: log-probability of the end mark, whatever the rules say of it.
        best_R: log-probability of the most probable token that the rules leave.
        best_id_R: that token; of equal ones the lowest id.
        end_id: the end mark.
    """
    goes_on = (best_R > end_R) | ((best_R == end_R) & (best_id_R < end_id))
    cut: NDArray[np.bool_] = goes_on & (best_id_R != end_id)
    return cut
