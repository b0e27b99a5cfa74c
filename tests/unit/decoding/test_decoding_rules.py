"""The rules on the next token, and the settings that are refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_model import END, PAD, TableModel

from damcha_core.decoding.hypothesis import length_penalty
from damcha_core.decoding.search import search
from damcha_core.decoding.search_settings import SearchSettings
from damcha_core.decoding.token_rules import allowed_log_probabilities, penalised, repeating
from damcha_core.errors import NonFiniteError, UsageError

marks = {"end_id": END, "forbidden_ids": [PAD]}
PROMPTS = [[seed] for seed in range(30)]
ways = pytest.mark.parametrize(
    "way", [{"beam": 1}, {"beam": 3, "n_best": 3}, {"temperature": 1.0}], ids=["1", "3", "drawn"]
)


def texts(model, **options) -> list[tuple[int, ...]]:
    found = search(model, PROMPTS, SearchSettings(**options), **marks)
    return [h.tokens for hypotheses in found for h in hypotheses]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_log_probabilities_are_normalised_over_the_allowed_tokens(dtype) -> None:
    logits = torch.randn(3, 7, dtype=torch.float64).to(dtype)
    before = logits.clone()
    log_p = allowed_log_probabilities(logits, torch.tensor([0, 4]))
    assert torch.equal(logits, before)
    assert log_p.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert log_p[:, [0, 4]].isneginf().all()
    torch.testing.assert_close(log_p.exp().sum(1).double(), torch.ones(3).double())
    allowed = [1, 2, 3, 5, 6]
    expected = logits[:, allowed].to(log_p.dtype).log_softmax(1)
    torch.testing.assert_close(log_p[:, allowed], expected)


@ways
def test_no_mark_is_in_a_text(way) -> None:
    found = texts(TableModel(6), max_new_tokens=8, **way)
    assert not {PAD, END} & {token for text in found for token in text}


@ways
def test_the_minimum_length_holds(way) -> None:
    model = TableModel(6, end_logit=3.0)
    assert min(map(len, texts(model, max_new_tokens=8, **way))) < 4
    assert min(map(len, texts(model, max_new_tokens=8, min_new_tokens=4, **way))) >= 4


@ways
def test_a_limit_below_the_minimum_length_wins(way) -> None:
    options = SearchSettings(max_new_tokens=8, min_new_tokens=5, **way)
    found = search(TableModel(6), PROMPTS, options, limits=[2] * len(PROMPTS), **marks)
    assert {len(h.tokens) for hypotheses in found for h in hypotheses} == {2}


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 4), st.integers(0, 9), st.integers(0, 2**32 - 1))
def test_what_would_repeat_a_run(n: int, length: int, seed: int) -> None:
    text_RT = np.random.default_rng(seed).integers(0, 3, (2, length))
    rows, ids = repeating(text_RT, n)
    for row, text in enumerate(text_RT.tolist()):
        runs = {tuple(text[i : i + n]) for i in range(length - n + 1)}
        expected = {t for t in range(3) if (*text[length - n + 1 :], t)[-n:] in runs}
        assert set(ids[rows == row].tolist()) == (expected if length >= n else set())


@ways
@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_run_comes_twice(way, n: int) -> None:
    model = TableModel(5, end_logit=-4.0)
    repeated = []
    for more in ({}, {"no_repeat_ngram": n}):
        found = texts(model, max_new_tokens=14, **more, **way)
        runs = [[text[i : i + n] for i in range(len(text) - n + 1)] for text in found]
        repeated.append(sum(len(set(own)) < len(own) for own in runs))
    assert repeated[0] > 5
    assert repeated[1] == 0


@ways
def test_a_text_ends_when_no_rule_leaves_a_token(way) -> None:
    model = TableModel(5, end_logit=-9.0)
    options = {"max_new_tokens": 9, "no_repeat_ngram": 1, "min_new_tokens": 9}
    assert {len(text) for text in texts(model, **options, **way)} == {3}


def test_the_repetition_penalty_is_a_distribution_and_ignores_shifts() -> None:
    log_p = torch.randn(2, 6, dtype=torch.float64).log_softmax(1)
    out = penalised(log_p, np.array([[2, 2, 3], [0, 1, 0]]), 1.5)
    torch.testing.assert_close(out.exp().sum(1), torch.ones(2).double())
    relative = out - log_p
    for row, seen in enumerate(([2, 3], [0, 1])):
        others = [i for i in range(6) if i not in seen]
        torch.testing.assert_close(relative[row, others], relative[row, others[:1]].expand(4))
        gain = relative[row, others[0]]
        torch.testing.assert_close(out[row, seen], log_p[row, seen] * 1.5 + gain)
    assert torch.equal(penalised(log_p, np.zeros((2, 0), np.int64), 1.5), log_p)


class Shifted(TableModel):
    def logits(self, seed, text):
        return super().logits(seed, text) - 1000.0


@ways
def test_a_repetition_penalty_makes_texts_more_varied(way) -> None:
    kinds = []
    for penalty in (0.5, 1.0, 3.0):
        options = {"max_new_tokens": 8, "repetition_penalty": penalty, **way}
        found = texts(TableModel(12, end_logit=-9.0), **options)
        assert found == texts(Shifted(12, end_logit=-9.0), **options)
        kinds.append(sum(len(set(text)) for text in found))
    assert kinds == sorted(set(kinds))


@ways
def test_what_the_prompt_says_may_be_said_again(way) -> None:
    options = {"max_new_tokens": 5, "no_repeat_ngram": 1, "repetition_penalty": 4.0, **way}
    alone = search(TableModel(6), [[3]], SearchSettings(**options), **marks)
    longer = search(TableModel(6), [[3, 2, 4, 5, 2, 3]], SearchSettings(**options), **marks)
    assert alone == longer


class Spoilt(TableModel):
    def __init__(self, value: float) -> None:
        super().__init__(6, end_logit=-9.0)
        self.value = value

    def logits(self, seed, text):
        return np.full(6, self.value) if len(text) == 2 else super().logits(seed, text)


@ways
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_scores_that_are_no_numbers_stop_the_search(way, value: float) -> None:
    with pytest.raises(NonFiniteError, match="NaN"):
        texts(Spoilt(value), **way)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"beam": 0}, "beam must be at least 1, not 0"),
        ({"beam": 2, "n_best": 3}, "n_best must be between 1 and beam (2), not 3"),
        ({"n_best": 0}, "n_best must be between 1 and beam (1), not 0"),
        ({"length_penalty": -0.1}, "length_penalty must be a finite number, at least 0"),
        ({"length_penalty": math.inf}, "length_penalty must be a finite number, at least 0"),
        ({"max_new_tokens": -1}, "max_new_tokens must be at least 0, not -1"),
        ({"min_new_tokens": 9, "max_new_tokens": 8}, "between 0 and max_new_tokens (8), not 9"),
        ({"min_new_tokens": -1}, "min_new_tokens must be between 0"),
        ({"no_repeat_ngram": -1}, "no_repeat_ngram must be at least 0"),
        ({"repetition_penalty": 0.0}, "repetition_penalty must be a finite number above 0"),
        ({"repetition_penalty": math.inf}, "repetition_penalty must be a finite number above 0"),
        ({"temperature": -1.0}, "temperature must be a finite number, at least 0"),
        ({"temperature": math.nan}, "temperature must be a finite number, at least 0"),
        ({"top_k": -1}, "top_k must be at least 0"),
        ({"top_p": 0.0}, "top_p must be above 0 and at most 1"),
        ({"top_p": 1.1}, "top_p must be above 0 and at most 1"),
        ({"seed": 2**63}, "seed must be between"),
        ({"temperature": 0.5, "beam": 2}, "set beam to 1 or temperature to 0"),
    ],
)
def test_settings_out_of_range_are_refused(wrong, said: str) -> None:
    with pytest.raises(UsageError) as refusal:
        SearchSettings(**wrong)
    assert said in str(refusal.value)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(UsageError) as refusal:
        SearchSettings(beam=0, top_p=2.0, top_k=-1)
    assert str(refusal.value).count("must be") == 4


def test_prompts_limits_and_keys_go_together() -> None:
    model, plain = TableModel(5), SearchSettings()
    assert search(model, [], plain, **marks) == []
    for more in ({"limits": [1]}, {"keys": [1]}, {"limits": [1, -1]}):
        with pytest.raises(ValueError, match="as many limits"):
            search(model, [[1], [2]], plain, **more, **marks)


@pytest.mark.parametrize(("n", "alpha", "value"), [(1, 2.0, 1.0), (7, 1.0, 2.0), (19, 0.5, 2.0)])
def test_the_length_penalty(n: int, alpha: float, value: float) -> None:
    assert length_penalty(n, alpha) == value
    assert length_penalty(n, 0.0) == 1.0


def test_an_end_mark_among_the_forbidden_is_still_the_end() -> None:
    plain = SearchSettings(max_new_tokens=5)
    model = TableModel(5, end_logit=3.0)
    found = search(model, PROMPTS, plain, end_id=END, forbidden_ids=[PAD, END, 99])
    assert found == search(model, PROMPTS, plain, **marks)
