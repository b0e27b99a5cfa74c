"""Padding, reordering and prompts of any length, on a small model of the library."""

from __future__ import annotations

import pytest
import torch

from damcha_core.decoding.next_token import CachedNextTokens, ReplayedNextTokens, left_padded
from damcha_core.errors import ShapeError
from damcha_core.models.conditional_lm import ConditionalLM
from damcha_core.models.transformer import TransformerPC

VOCAB = 30
adaptors = pytest.mark.parametrize("adaptor", [CachedNextTokens, ReplayedNextTokens])
PROMPTS = [[4, 5, 6], [7], [8, 9, 10, 11, 12, 13], [14, 15, 16]]


@pytest.fixture(scope="module")
def model() -> ConditionalLM:
    torch.manual_seed(3)
    stack = TransformerPC(12, 2, 24, 2, attention="damcha", attention_options={"mlp_hidden": [8]})
    model = ConditionalLM(VOCAB, transformer=stack).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.4)
    return model


def whole(model: ConditionalLM, text: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.tensor([text]))[0, -1]


def test_pads_are_on_the_left() -> None:
    tokens, mask = left_padded([[4, 5], [6, 7, 8]], 9)
    assert tokens.tolist() == [[9, 4, 5], [6, 7, 8]]
    assert mask is not None
    assert mask.tolist() == [[False, True, True], [True, True, True]]
    assert left_padded([[4, 5], [6, 7]], 9)[1] is None


@pytest.mark.parametrize("prompts", [[], [[]], [[4], []]])
@adaptors
def test_an_empty_prompt_is_refused(model, adaptor, prompts) -> None:
    with pytest.raises(ShapeError, match="at least one prompt"):
        adaptor(model, 0).begin(prompts)


@torch.no_grad()
@adaptors
@pytest.mark.parametrize("pad_id", [0, 29])
def test_logits_are_those_of_the_text_alone(model, adaptor, pad_id: int) -> None:
    texts = [list(prompt) for prompt in PROMPTS]
    tokens = adaptor(model, pad_id)
    assert tokens.vocab_size == VOCAB
    logits = tokens.begin(texts)
    for rows in ([0, 1, 2, 3], [0, 1, 2, 3], [3, 1, 1, 0, 2, 2], [0, 1, 2], [1], [0, 0]):
        for row, text in zip(logits, texts, strict=True):
            torch.testing.assert_close(row, whole(model, text), rtol=0, atol=1e-10)
        added = [(7 * i + len(texts)) % VOCAB for i in range(len(rows))]
        texts = [[*texts[row], token] for row, token in zip(rows, added, strict=True)]
        logits = tokens.advance(torch.tensor(rows), torch.tensor(added))
    for row, text in zip(logits, texts, strict=True):
        torch.testing.assert_close(row, whole(model, text), rtol=0, atol=1e-10)


@torch.no_grad()
@adaptors
def test_a_new_start_forgets_what_was_before(model, adaptor) -> None:
    tokens = adaptor(model, 0)
    first = tokens.begin(PROMPTS)
    tokens.advance(torch.tensor([2, 1]), torch.tensor([5, 6]))
    assert torch.equal(tokens.begin(PROMPTS), first)


@torch.no_grad()
@adaptors
def test_one_row_of_many_is_the_row_that_was_asked_for(model, adaptor) -> None:
    """Row 0 alone of four is no identity, though its number is in order."""
    tokens = adaptor(model, 0)
    tokens.begin(PROMPTS)
    logits = tokens.advance(torch.tensor([0]), torch.tensor([5]))
    torch.testing.assert_close(logits[0], whole(model, [*PROMPTS[0], 5]), rtol=0, atol=1e-10)
