"""Sampling: each token is drawn, in a way that depends on nothing but the text it is for.

Shapes: R rows (texts that go on), V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from damcha_core.data.randomness import raw_draws
from damcha_core.decoding.hypothesis import Hypothesis
from damcha_core.decoding.next_token import NextTokenModel
from damcha_core.decoding.search_settings import SearchSettings
from damcha_core.decoding.search_task import SearchTask
from damcha_core.decoding.single_path import follow_path


def sample(
    model: NextTokenModel, prompts: Sequence[Sequence[int]], task: SearchTask
) -> list[list[Hypothesis]]:
    """One drawn text for each prompt.

    A draw is a function of the seed, the prompt's key and the step, so neither the size of the
    batch nor the neighbours of a prompt can change its text. The log-probability of the text is
    that of temperature 1 with all tokens: the chance of the text under the model.

    Args:
        model: of the next token.
        prompts: at least one, each with at least one token.
        task: what the search is about; the temperature is above 0.

    Returns:
        A list of one hypothesis for each prompt.

    Raises:
        NonFiniteError: the model gives NaN.
    """
    settings = task.settings

    def draw(log_p_RV: Tensor, prompt_R: NDArray[np.int64], step: int) -> Tensor:
        # On the CPU, whose sums are the same every time and which has float64 wherever it is.
        weights_RV = token_weights(log_p_RV.cpu(), settings)
        uniform_R = uniforms(settings.seed, [task.keys[i] for i in prompt_R], step)
        return inverse_cdf(weights_RV, torch.from_numpy(uniform_R))

    return follow_path(model, prompts, task, draw)


def uniforms(seed: int, keys: Sequence[int], step: int) -> NDArray[np.float64]:
    """One draw for each key: the top 53 bits of the first draw of its stream.

    Args:
        seed: seed of the search.
        keys: one a text.
        step: text tokens so far.

    Returns:
        Numbers in [0, 1).
    """
    draws = raw_draws("sampling", [(seed, key, step) for key in keys], 1)[:, 0]
    return (draws >> np.uint64(11)).astype(np.float64) * 2.0**-53


def token_weights(log_p_RV: Tensor, settings: SearchSettings) -> Tensor:
    """What the tokens are drawn in proportion to: temperature, then top-k, then top-p.

    Of equally probable tokens those with the lower ids are kept.

    Args:
        log_p_RV: log-probabilities, -inf for tokens that may not come.
        settings: temperature above 0, top_k and top_p.

    Returns:
        Weights (R, V) in float64, at most 1; at least one of a row is 1 unless all of it is -inf.
    """
    log_p_RV = log_p_RV.double()
    # The largest is 0 before the division, so that a tiny temperature overflows nothing.
    best_R1 = log_p_RV.max(dim=1, keepdim=True).values
    weights_RV = ((log_p_RV - best_R1) / settings.temperature).exp()
    n_vocab = weights_RV.shape[1]
    top_k = settings.top_k if 0 < settings.top_k < n_vocab else n_vocab
    if top_k == n_vocab and settings.top_p == 1:
        return weights_RV
    # By the log-probabilities: at a tiny temperature different ones have the same weight, zero.
    ids_RV = log_p_RV.sort(dim=1, descending=True, stable=True).indices[:, :top_k]
    sorted_RK = weights_RV.gather(1, ids_RV)
    if settings.top_p < 1:
        sums_RK = sorted_RK.cumsum(1)
        # Those before a token must fall short of top_p, so the first one always stays.
        short_RK = sums_RK - sorted_RK < settings.top_p * sums_RK[:, -1:]
        sorted_RK = sorted_RK.where(short_RK, 0.0)
    return torch.zeros_like(weights_RV).scatter(1, ids_RV, sorted_RK)


def inverse_cdf(weights_RV: Tensor, uniform_R: Tensor) -> Tensor:
    """The token of each row at which the sum of the weights passes a share of the whole.

    Args:
        weights_RV: at least 0, in float64.
        uniform_R: the share, in [0, 1).

    Returns:
        Token ids (R), never one of weight 0 unless all weights of its row are 0 or NaN.
    """
    sums_RV = weights_RV.cumsum(1)
    below_RV = sums_RV <= uniform_R[:, None] * sums_RV[:, -1:]
    id_R = below_RV.sum(1)
    # Rounding may lift the product to the whole sum; then it is the last token of any weight.
    last_R = (sums_RV < sums_RV[:, -1:]).sum(1)
    return torch.minimum(id_R, last_R).clamp_max(weights_RV.shape[1] - 1)
