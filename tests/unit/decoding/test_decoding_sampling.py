"""Draws: their distribution, what they depend on, and the extremes of the settings."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_model import END, PAD, TableModel

from damcha_core.data.randomness import generator
from damcha_core.decoding.hypothesis import Hypothesis
from damcha_core.decoding.sampling import inverse_cdf, token_weights, uniforms
from damcha_core.decoding.search import search
from damcha_core.decoding.search_settings import SearchSettings

VOCAB = 12
marks = {"end_id": END, "forbidden_ids": [PAD]}
TINY = [1e-8, 1e-300, 5e-324]


def drawn(prompts, keys, model=None, **options) -> list[Hypothesis]:
    chosen = SearchSettings(**{"temperature": 1.0, "max_new_tokens": 9} | options)
    found = search(model or TableModel(VOCAB), prompts, chosen, keys=keys, **marks)
    return [texts[0] for texts in found]


def weights(log_p, **options) -> np.ndarray:
    row = torch.from_numpy(log_p)[None]
    return token_weights(row, SearchSettings(**{"temperature": 1.0} | options))[0].numpy()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_come_as_often_as_the_model_says(temperature: float) -> None:
    n, model = 4000, TableModel(VOCAB)
    texts = drawn([[3]] * n, range(n), model, temperature=temperature, max_new_tokens=1)
    first = [h.tokens[0] if h.tokens else END for h in texts]
    p = np.exp(model.log_p(3, ()) / temperature)
    p /= p.sum()
    counts = np.bincount(first, minlength=VOCAB)
    spread = np.sqrt(n * p * (1 - p)).clip(1e-9)
    assert counts[PAD] == 0
    assert (abs(counts - n * p) / spread)[1:].max() < 4


def test_a_text_depends_on_seed_and_key_alone() -> None:
    prompts, keys = [[i] for i in range(30)], [10**15 + 7 * i for i in range(30)]
    together = drawn(prompts, keys, seed=4)
    assert drawn(prompts, keys, seed=4) == together
    assert drawn(prompts[::-1], keys[::-1], seed=4)[::-1] == together
    assert drawn(prompts[:7] + prompts[8:], keys[:7] + keys[8:], seed=4) == (
        together[:7] + together[8:]
    )
    alone = [drawn([p], [k], seed=4)[0] for p, k in zip(prompts, keys, strict=True)]
    assert alone == together
    other_seed = drawn(prompts, keys, seed=5)
    other_keys = drawn(prompts, range(30), seed=4)
    for other in (other_seed, other_keys):
        assert sum(a.tokens != b.tokens for a, b in zip(other, together, strict=True)) > 15


def test_equal_prompts_with_different_keys_differ() -> None:
    assert len({h.tokens for h in drawn([[3]] * 20, range(20))}) > 10


def test_draws_are_those_of_the_stream_of_seed_key_and_step() -> None:
    raw = int(generator("sampling", 3, 5, 7).bit_generator.random_raw())
    assert uniforms(3, [5, 6], 7)[0] == (raw >> 11) / 2**53
    assert uniforms(3, [5, 6], 7)[1] != uniforms(3, [5, 6], 8)[1]


@pytest.mark.parametrize("temperature", TINY)
@pytest.mark.parametrize("options", [{}, {"top_k": 3}, {"top_p": 0.5}])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_tiny_temperature_is_greedy(temperature, options, dtype) -> None:
    model = TableModel(VOCAB, dtype=dtype, scale=50.0)
    prompts = [[i] for i in range(20)]
    greedy = drawn(prompts, range(20), model, temperature=0.0)
    assert drawn(prompts, range(20), model, temperature=temperature, **options) == greedy


def test_top_k_one_is_greedy_and_top_k_of_all_is_none() -> None:
    prompts = [[i] for i in range(20)]
    assert drawn(prompts, range(20), top_k=1) == drawn(prompts, range(20), temperature=0.0)
    free = drawn(prompts, range(20))
    for top_k in (VOCAB, VOCAB + 1, 10**9):
        assert drawn(prompts, range(20), top_k=top_k) == free
    assert drawn(prompts, range(20), top_p=1e-9) == drawn(prompts, range(20), temperature=0.0)


def test_top_k_keeps_the_lowest_of_equal_tokens() -> None:
    log_p = np.log([0.1, 0.3, 0.1, 0.3, 0.2])
    assert weights(log_p, top_k=1).nonzero()[0].tolist() == [1]
    assert weights(log_p, top_k=3).nonzero()[0].tolist() == [1, 3, 4]
    assert weights(log_p, top_k=4).nonzero()[0].tolist() == [0, 1, 3, 4]


@pytest.mark.parametrize(
    ("top_p", "kept"),
    [
        (1e-9, [1]),
        (0.49, [1]),
        (0.51, [1, 3]),
        (0.74, [1, 3]),
        (0.76, [0, 1, 3]),
        (1.0, [0, 1, 2, 3]),
    ],
)
def test_top_p_keeps_the_smallest_set_that_reaches_it(top_p, kept) -> None:
    log_p = np.log([0.15, 0.5, 0.1, 0.25])
    assert weights(log_p, top_p=top_p).nonzero()[0].tolist() == kept


def test_top_p_counts_what_top_k_left_and_what_the_temperature_made() -> None:
    log_p = np.log([0.4, 0.3, 0.2, 0.1])
    # Of 0.4, 0.3 and 0.2 the first has 44 %, of all it has 40 %.
    assert weights(log_p, top_k=3, top_p=0.43).nonzero()[0].tolist() == [0]
    assert weights(log_p, top_p=0.43).nonzero()[0].tolist() == [0, 1]
    # At temperature 1/2 it has 53 %.
    assert weights(log_p, temperature=0.5, top_p=0.5).nonzero()[0].tolist() == [0]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=9).filter(lambda w: sum(w) > 1e-3),
    st.floats(0, 1, exclude_max=True),
)
def test_the_inverse_cdf_never_takes_a_token_of_no_weight(row, share) -> None:
    chosen = inverse_cdf(
        torch.tensor([row], dtype=torch.float64), torch.tensor([share], dtype=torch.float64)
    )
    sums = np.cumsum(row)
    index = int(chosen)
    assert row[index] > 0
    assert sums[index] >= share * sums[-1] * (1 - 1e-12)
    assert index == 0 or sums[index - 1] <= share * sums[-1]


def test_the_log_probability_is_that_of_the_model() -> None:
    model = TableModel(VOCAB)
    for seed in range(10):
        h = drawn([[seed]], [seed], model, temperature=0.7, top_k=5, top_p=0.9)[0]
        assert h.log_probability == pytest.approx(model.text_log_p(seed, h.tokens), abs=1e-12)


def test_limits_hold_and_cut_texts_are_reported() -> None:
    model = TableModel(VOCAB, end_logit=-2.0)
    found = drawn([[i] for i in range(20)], range(20), model, max_new_tokens=3)
    assert {len(h.tokens) for h in found if h.cut} == {3}
    for seed, h in enumerate(found):
        full = len(h.tokens) == 3
        assert h.cut == (full and model.log_p(seed, h.tokens).argmax() != END)
    assert [h.tokens for h in drawn([[1], [2]], [0, 1], model, max_new_tokens=0)] == [(), ()]
