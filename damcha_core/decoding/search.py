"""The entry to all ways of searching for a text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from damcha_core.decoding.beam_search import beam_search
from damcha_core.decoding.constrained_search import constrained_search
from damcha_core.decoding.constraints import Constraints
from damcha_core.decoding.greedy import greedy_search
from damcha_core.decoding.hypothesis import Hypothesis
from damcha_core.decoding.next_token import NextTokenModel
from damcha_core.decoding.sampling import sample
from damcha_core.decoding.search_settings import SearchSettings
from damcha_core.decoding.search_task import SearchTask
from damcha_core.decoding.token_rules import TokenRules
from damcha_core.errors import UsageError


def search(
    model: NextTokenModel,
    prompts: Sequence[Sequence[int]],
    settings: SearchSettings,
    *,
    end_id: int,
    forbidden_ids: Iterable[int] = (),
    limits: Sequence[int] | None = None,
    keys: Sequence[int] | None = None,
    constraints: Constraints | None = None,
) -> list[list[Hypothesis]]:
    """The n best texts that go on from each prompt, all prompts as one batch.

    What comes out for a prompt depends neither on the other prompts nor on their order, up to the
    rounding of the model.

    Args:
        model: of the next token, in evaluation mode.
        prompts: token ids, at least one token each.
        settings: how to search.
        end_id: the end mark.
        forbidden_ids: tokens that never come, such as the other marks; the end mark among them is
            ignored.
        limits: most text tokens of each prompt, at least 0; settings.max_new_tokens holds beside
            them. None: that alone.
        keys: a whole number of each prompt, within 64 bits, that its random draws depend on, such
            as its line number; None: its place in `prompts`.
        constraints: concepts that the texts must hold; None: none.

    Returns:
        For each prompt, in the order given, up to n_best hypotheses, best first; fewer where
        there are no more texts within the limit.

    Raises:
        ValueError: the numbers of prompts, limits, keys and lists of concepts differ, a limit is
            negative, or the constraints are of another vocabulary.
        UsageError: there are constraints and the temperature is above 0.
        ShapeError: a prompt is empty.
        NonFiniteError: the model gives NaN or infinite logits.
    """
    if not len(prompts):
        return []
    if constraints is not None:
        _check_constraints(constraints, len(prompts), model.vocab_size, settings)
    limits = [settings.max_new_tokens] * len(prompts) if limits is None else limits
    keys = range(len(prompts)) if keys is None else keys
    if not len(prompts) == len(limits) == len(keys) or min(limits) < 0:
        raise ValueError(
            f"{len(prompts)} prompts need as many limits (at least 0) and keys, not "
            f"{len(limits)} limits and {len(keys)} keys"
        )
    rules = TokenRules(settings, end_id, forbidden_ids, model.vocab_size)
    limits_P = np.minimum(np.asarray(limits, np.int64), settings.max_new_tokens)
    return _run(model, prompts, SearchTask(settings, rules, limits_P, keys), constraints)


def _run(
    model: NextTokenModel,
    prompts: Sequence[Sequence[int]],
    task: SearchTask,
    constraints: Constraints | None,
) -> list[list[Hypothesis]]:
    # Not inference mode: a table that a model makes on the way must serve in training too.
    with torch.no_grad():
        if constraints is not None:
            return constrained_search(model, prompts, task, constraints)
        if task.settings.temperature > 0:
            return sample(model, prompts, task)
        if task.settings.beam == 1:
            return greedy_search(model, prompts, task)
        return beam_search(model, prompts, task)


def _check_constraints(
    constraints: Constraints, n_prompts: int, vocab_size: int, settings: SearchSettings
) -> None:
    if len(constraints.concepts) != n_prompts or len(constraints.starts_word) != vocab_size:
        raise ValueError(
            f"{n_prompts} prompts and {vocab_size} tokens need as many lists of concepts and marks "
            f"of words, not {len(constraints.concepts)} and {len(constraints.starts_word)}"
        )
    if settings.temperature > 0:
        raise UsageError(
            f"concepts are placed by a search, temperature {settings.temperature} draws a text; "
            "set temperature to 0 or give no concepts"
        )
