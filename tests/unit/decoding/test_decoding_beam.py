"""Beam search against the enumeration of all texts, against greedy search, and its rules."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from toy_model import END, PAD, TableModel, all_texts

from damcha_core.decoding.beam_search import beam_search
from damcha_core.decoding.finished_pool import FinishedPool
from damcha_core.decoding.hypothesis import Hypothesis, length_penalty
from damcha_core.decoding.search import search
from damcha_core.decoding.search_settings import SearchSettings
from damcha_core.decoding.search_task import SearchTask
from damcha_core.decoding.token_rules import TokenRules

N_MODELS, VOCAB, LIMIT = 200, 5, 3
WIDE = (VOCAB - 1) ** LIMIT
RARE, FREQUENT = -4.0, 2.0
ALPHAS = [0.0, 0.6, 1.0, 2.0]
PROMPTS = [[seed] for seed in range(N_MODELS)]
any_alpha = pytest.mark.parametrize("alpha", ALPHAS)
any_end = pytest.mark.parametrize("end_logit", [RARE, FREQUENT], ids=["rare", "frequent"])

marks = {"end_id": END, "forbidden_ids": [PAD]}


@functools.cache
def enumerated(end_logit: float, alpha: float) -> list[list[Hypothesis]]:
    model = TableModel(VOCAB, end_logit)
    return [all_texts(model, seed, LIMIT, alpha) for seed in range(N_MODELS)]


def differences(found: list[list[Hypothesis]], end_logit: float, alpha: float) -> int:
    """In how many of the models the best texts are not those of the enumeration."""
    wrong = 0
    for mine, best in zip(found, enumerated(end_logit, alpha), strict=True):
        same = [h.tokens for h in mine] == [h.tokens for h in best[: len(mine)]]
        gap = max(abs(h.score - b.score) for h, b in zip(mine, best, strict=False))
        wrong += not (same and gap < 1e-12)
    return wrong


def wide_search(end_logit: float, alpha: float, n_best: int) -> list[list[Hypothesis]]:
    settings = SearchSettings(beam=WIDE, n_best=n_best, length_penalty=alpha, max_new_tokens=LIMIT)
    return search(TableModel(VOCAB, end_logit), PROMPTS, settings, **marks)


@pytest.mark.parametrize("n_best", [1, 5])
@any_end
@any_alpha
def test_a_wide_beam_is_full_enumeration(alpha: float, end_logit: float, n_best: int) -> None:
    found = wide_search(end_logit, alpha, n_best)
    assert all(len(texts) == n_best for texts in found)
    assert differences(found, end_logit, alpha) == 0


def test_all_texts_are_found_when_as_many_are_wanted() -> None:
    settings = SearchSettings(beam=99, n_best=99, max_new_tokens=LIMIT)
    found = search(TableModel(VOCAB), [[7]], settings, **marks)[0]
    assert len(found) == 1 + 3 + 9 + 27
    assert sum(np.exp(h.log_probability) for h in found) < 1
    assert {h.tokens for h in found} == {h.tokens for h in all_texts(TableModel(VOCAB), 7, 3, 0)}


def first_finished(pool, prompt_R, log_p_R):
    """Broken: over as soon as enough texts are finished."""
    return pool.count_P[prompt_R] < 1


def bound_without_penalty(pool, prompt_R, log_p_R):
    """Broken: takes the log-probability for the best score that can be reached."""
    return (pool.count_P[prompt_R] < 1) | (log_p_R > pool._bar_P[prompt_R])


def other_penalty(task, tokens, log_p, *, cut=False, unplaced=()):
    """Broken: finished texts are ranked by the mean log-probability of their text tokens."""
    return Hypothesis(tuple(tokens.tolist()), log_p, log_p / max(len(tokens), 1), cut, unplaced)


def forgotten_end(task, tokens, log_p, *, cut=False, unplaced=()):
    """Broken: the end mark is not counted."""
    score = log_p / length_penalty(len(tokens), task.settings.length_penalty)
    return Hypothesis(tuple(tokens.tolist()), log_p, score, cut, unplaced)


@pytest.mark.parametrize(
    ("owner", "method", "broken"),
    [
        (FinishedPool, "is_beatable", first_finished),
        (FinishedPool, "is_beatable", bound_without_penalty),
        (SearchTask, "hypothesis", other_penalty),
        (SearchTask, "hypothesis", forgotten_end),
    ],
)
def test_a_broken_twin_is_not_full_enumeration(monkeypatch, owner, method, broken) -> None:
    monkeypatch.setattr(owner, method, broken)
    wrong = [differences(wide_search(end, 2.0, 1), end, 2.0) for end in (RARE, FREQUENT)]
    assert max(wrong) > 0


@any_end
@any_alpha
def test_beam_one_is_greedy(alpha: float, end_logit: float) -> None:
    settings = SearchSettings(length_penalty=alpha, max_new_tokens=9)
    model = TableModel(VOCAB, end_logit)
    rules = TokenRules(settings, END, [PAD], VOCAB)
    task = SearchTask(settings, rules, np.full(N_MODELS, 9), range(N_MODELS))
    greedy = search(model, PROMPTS, settings, **marks)
    assert beam_search(model, PROMPTS, task) == greedy


@any_alpha
def test_a_wider_beam_finds_better_texts_on_the_whole(alpha: float) -> None:
    means = []
    for beam in (1, 2, 4, WIDE):
        settings = SearchSettings(beam=beam, length_penalty=alpha, max_new_tokens=LIMIT)
        found = search(TableModel(VOCAB, RARE), PROMPTS, settings, **marks)
        means.append(np.mean([texts[0].score for texts in found]))
    assert means == sorted(means)


@any_end
def test_every_log_probability_is_that_of_its_text(end_logit: float) -> None:
    model = TableModel(VOCAB, end_logit)
    settings = SearchSettings(beam=4, n_best=4, length_penalty=0.7, max_new_tokens=7)
    for prompt, texts in zip(PROMPTS, search(model, PROMPTS, settings, **marks), strict=True):
        assert len({h.tokens for h in texts}) == len(texts) == 4
        for h in texts:
            expected = model.text_log_p(prompt[0], h.tokens)
            assert h.log_probability == pytest.approx(expected, abs=1e-12)
            assert h.score == h.log_probability / length_penalty(len(h.tokens) + 1, 0.7)


@pytest.mark.parametrize("beam", [1, 4])
def test_limits_of_one_batch_differ_and_cut_texts_are_reported(beam: int) -> None:
    model = TableModel(VOCAB, RARE)
    limits = [0, 3, 1, 2]
    settings = SearchSettings(beam=beam, n_best=beam, max_new_tokens=9)
    found = search(model, PROMPTS[:4], settings, limits=limits, **marks)
    assert [h.tokens for h in found[0]] == [()]
    for seed, limit, texts in zip(range(4), limits, found, strict=True):
        for h in texts:
            assert len(h.tokens) <= limit
            assert h.log_probability == pytest.approx(model.text_log_p(seed, h.tokens), abs=1e-12)
            most_probable = model.log_p(seed, h.tokens).argmax() == END
            assert h.cut == (len(h.tokens) == limit and not most_probable)
    assert any(h.cut for texts in found for h in texts)


@pytest.mark.parametrize("beam", [1, 4])
def test_max_new_tokens_holds_beside_the_limits(beam: int) -> None:
    settings = SearchSettings(beam=beam, max_new_tokens=2)
    found = search(TableModel(VOCAB, RARE), PROMPTS, settings, limits=[9] * N_MODELS, **marks)
    assert max(len(texts[0].tokens) for texts in found) == 2


@pytest.mark.parametrize("beam", [1, 3])
def test_neighbours_and_order_change_nothing(beam: int) -> None:
    settings = SearchSettings(beam=beam, n_best=beam, length_penalty=1.0, max_new_tokens=12)
    model = TableModel(VOCAB)
    together = search(model, PROMPTS[:40], settings, **marks)
    reversed_ = search(model, PROMPTS[:40][::-1], settings, **marks)
    alone = [search(model, [prompt], settings, **marks)[0] for prompt in PROMPTS[:40]]
    assert together == reversed_[::-1] == alone


@pytest.mark.parametrize("beam", [1, 3])
def test_finished_texts_leave_the_batch(beam: int) -> None:
    model = TableModel(VOCAB)
    search(model, PROMPTS, SearchSettings(beam=beam, max_new_tokens=12), **marks)
    later = model.n_rows[1:]
    assert later == sorted(later, reverse=True)
    assert later[-1] < later[0] / 4


class Level(TableModel):
    """All text tokens are equally probable, the end mark is a little less so."""

    def logits(self, seed, text):
        level = np.zeros(self.vocab_size)
        level[END] = -0.5
        return level


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_ties_go_to_the_earliest_parent_and_the_lowest_id(dtype: torch.dtype) -> None:
    for beam in (1, 2, 5):
        settings = SearchSettings(beam=beam, n_best=beam, max_new_tokens=2, min_new_tokens=2)
        model = Level(40, dtype=dtype)
        found = search(model, [[0], [1]], settings, **marks)
        expected = [(2, 2 + i) for i in range(beam)]
        assert [[h.tokens for h in texts] for texts in found] == [expected] * 2


def test_a_beam_wider_than_the_vocabulary_is_fine() -> None:
    settings = SearchSettings(beam=50, n_best=50, max_new_tokens=1)
    assert len(search(TableModel(4), [[3]], settings, **marks)[0]) == 3
