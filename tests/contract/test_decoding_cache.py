"""Search with the cached state of every attention is search that reads the whole text again."""

from __future__ import annotations

import pytest
import torch

from damcha_core.attention.cache import MaskedCache
from damcha_core.decoding.hypothesis import Hypothesis
from damcha_core.decoding.next_token import CachedNextTokens, ReplayedNextTokens
from damcha_core.decoding.search import search
from damcha_core.decoding.search_settings import SearchSettings
from damcha_core.models.conditional_lm import ConditionalLM, TextCache
from damcha_core.models.transformer import TransformerPC

WIDTH, VOCAB, PAD, END, MARKS = 30, 40, 0, 1, (0, 2, 3)
LENGTHS = (1, 9, 4, 17, 2)
# Without the rule most random models say one token for ever, which hides errors.
LIMITS = {"max_new_tokens": 12, "no_repeat_ngram": 2}
SETTINGS = {
    "greedy": SearchSettings(**LIMITS),
    "beam": SearchSettings(beam=4, n_best=4, length_penalty=1.0, **LIMITS),
}
any_search = pytest.mark.parametrize("kind", SETTINGS)


@pytest.fixture
def model(name: str, sizes, redraw) -> ConditionalLM:
    """A model with the row's attention in float64."""
    heads, options = sizes
    stack = TransformerPC(WIDTH, heads, 60, 2, attention=name, attention_options=options)
    model = redraw(ConditionalLM(VOCAB, transformer=stack)).double().eval()
    with torch.no_grad():
        # Of the order of a trained one, so that texts differ.
        model.embedding.weight.mul_(3.0)
    return model


@pytest.fixture
def prompts() -> list[list[int]]:
    return [torch.randint(4, VOCAB, (n,)).tolist() for n in LENGTHS]


def found(texts: list[list[Hypothesis]]) -> list[list[tuple[tuple[int, ...], bool]]]:
    return [[(h.tokens, h.cut) for h in hypotheses] for hypotheses in texts]


def scores(texts: list[list[Hypothesis]]) -> torch.Tensor:
    return torch.tensor([h.score for hypotheses in texts for h in hypotheses])


@any_search
def test_a_cache_changes_no_text(model, prompts, kind: str) -> None:
    settings, marks = SETTINGS[kind], {"end_id": END, "forbidden_ids": MARKS}
    cached = search(CachedNextTokens(model, PAD), prompts, settings, **marks)
    replayed = search(ReplayedNextTokens(model, PAD), prompts, settings, **marks)
    alone = [search(CachedNextTokens(model, PAD), [p], settings, **marks)[0] for p in prompts]
    assert found(cached) == found(replayed) == found(alone)
    for other in (replayed, alone):
        torch.testing.assert_close(scores(cached), scores(other), rtol=0, atol=1e-9)
    assert len({h.tokens for texts in cached for h in texts}) > 2


def in_order(reorder):
    """Broken: the rows of a prompt go on in their old order."""
    return lambda cache, rows_B: reorder(cache, rows_B.sort().values)


def without_pads(append_mask):
    """Broken: pads are keys."""
    return lambda cache, key_mask, like_BMD: append_mask(cache, None, like_BMD)


@pytest.mark.parametrize("name", ["mha", "damcha"])
@pytest.mark.parametrize(
    ("owner", "method", "broken"),
    [(TextCache, "reorder", in_order), (MaskedCache, "append_mask", without_pads)],
)
def test_a_broken_cache_changes_texts(model, prompts, monkeypatch, owner, method, broken) -> None:
    settings, marks = SETTINGS["beam"], {"end_id": END, "forbidden_ids": MARKS}
    expected = found(search(ReplayedNextTokens(model, PAD), prompts, settings, **marks))
    monkeypatch.setattr(owner, method, broken(getattr(owner, method)))
    assert found(search(CachedNextTokens(model, PAD), prompts, settings, **marks)) != expected
