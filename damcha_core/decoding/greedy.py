"""Greedy search: the most probable token at each step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from damcha_core.decoding.hypothesis import Hypothesis
from damcha_core.decoding.next_token import NextTokenModel
from damcha_core.decoding.search_task import SearchTask
from damcha_core.decoding.single_path import follow_path


def greedy_search(
    model: NextTokenModel, prompts: Sequence[Sequence[int]], task: SearchTask
) -> list[list[Hypothesis]]:
    """One text for each prompt, of the most probable tokens; of equal ones the lowest id.

    Args:
        model: of the next token.
        prompts: at least one, each with at least one token.
        task: what the search is about.

    Returns:
        A list of one hypothesis for each prompt.

    Raises:
        NonFiniteError: the model gives NaN.
    """
    return follow_path(model, prompts, task, _most_probable)


def _most_probable(log_p_RV: Tensor, prompt_R: NDArray[np.int64], step: int) -> Tensor:
    # Of equal values torch.argmax promises the first, which torch.topk does not.
    return log_p_RV.argmax(dim=1)
