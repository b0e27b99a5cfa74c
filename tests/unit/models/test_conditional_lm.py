"""The conditional language model: tied head, positions of real tokens, caches, wanted logits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from damcha_core.errors import ShapeError
from damcha_core.models.conditional_lm import ConditionalLM
from damcha_core.models.transformer import TransformerPC

VOCABULARY, WIDTH = 23, 12
NAMES = ["mha", "damcha", "damcha-geometric", "elliptical", "differential"]


@pytest.fixture
def model(redraw: Callable[..., nn.Module]) -> Callable[..., ConditionalLM]:
    """Builds a model in float64 with every parameter from a random draw."""

    def build(attention: str = "damcha", **options: object) -> ConditionalLM:
        heads = 4 if attention == "differential" else 3
        stack = TransformerPC(WIDTH, heads, 14, 2, attention=attention, **options)
        built = redraw(ConditionalLM(VOCABULARY, transformer=stack))
        assert isinstance(built, ConditionalLM)
        return built.double().eval()

    return build


def texts(*lengths: int) -> list[Tensor]:
    return [torch.randint(0, VOCABULARY, (length,)) for length in lengths]


def padded(rows: list[Tensor], *, left: bool) -> tuple[Tensor, Tensor]:
    longest = max(map(len, rows))
    tokens = torch.randint(0, VOCABULARY, (len(rows), longest))
    mask = torch.zeros(len(rows), longest, dtype=torch.bool)
    for row, text in enumerate(rows):
        place = slice(longest - len(text), None) if left else slice(len(text))
        tokens[row, place] = text
        mask[row, place] = True
    return tokens, mask


def test_the_head_is_the_embedding_and_counted_once(model: Callable[..., ConditionalLM]) -> None:
    built = model("mha")
    names = [name for name, _ in built.named_parameters() if "embedding" in name]
    assert names == ["embedding.weight"]
    hidden = torch.randn(5, WIDTH, dtype=torch.float64)
    assert torch.equal(built.logits(hidden), hidden @ built.embedding.weight.T)


@pytest.mark.parametrize("left", [True, False], ids=["padded before", "padded after"])
@pytest.mark.parametrize("name", NAMES)
def test_padding_on_either_side_changes_nothing(
    model: Callable[..., ConditionalLM], name: str, left: bool
) -> None:
    built, rows = model(name), texts(2, 7, 11)
    tokens, mask = padded(rows, left=left)
    together = built(tokens, mask)
    for row, text in enumerate(rows):
        alone = built(text[None])[0]
        assert torch.allclose(together[row][mask[row]], alone, rtol=0, atol=1e-12)


def test_the_broken_twin_that_counts_padding_is_seen(model: Callable[..., ConditionalLM]) -> None:
    built, rows = model("mha"), texts(3, 9)
    tokens, mask = padded(rows, left=True)
    place = built._place
    built._place = lambda tokens, mask, cache: place(tokens, None, cache)  # type: ignore[method-assign]
    assert not torch.allclose(built(tokens, mask)[0, 6:], built(rows[0][None])[0], atol=1e-3)


@pytest.mark.parametrize("split", [[1] * 11, [6, 1, 4], [11]], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_steps_with_a_cache_are_the_full_pass(
    model: Callable[..., ConditionalLM], name: str, split: list[int]
) -> None:
    built = model(name)
    tokens, mask = padded(texts(4, 11, 8), left=True)
    cache, parts, start = built.new_cache(), [], 0
    for n_new in split:
        new = slice(start, start + n_new)
        parts.append(built(tokens[:, new], mask[:, new], cache=cache))
        start += n_new
    whole = built(tokens, mask)
    assert torch.allclose(torch.cat(parts, 1)[mask], whole[mask], rtol=0, atol=1e-12)


def test_a_cache_follows_rows_that_part_and_end(model: Callable[..., ConditionalLM]) -> None:
    built = model()
    tokens, mask = padded(texts(3, 6), left=True)
    cache = built.new_cache()
    built(tokens, mask, cache=cache)
    rows = torch.tensor([1, 0, 1])
    cache.reorder(rows)
    new = torch.tensor([[4], [9], [2]])
    step = built(new, cache=cache)
    whole_mask = torch.cat([mask[rows], torch.ones(3, 1, dtype=torch.bool)], 1)
    whole = built(torch.cat([tokens[rows], new], 1), whole_mask)
    assert torch.allclose(step[:, 0], whole[:, -1], rtol=0, atol=1e-12)


def test_logits_where_they_are_wanted_alone(model: Callable[..., ConditionalLM]) -> None:
    built = model("mha")
    tokens, _ = padded(texts(5, 8), left=False)
    wanted = torch.rand(tokens.shape) < 0.4
    some = built(tokens, where_BN=wanted)
    assert torch.equal(some, built(tokens)[wanted])


def test_a_later_token_moves_no_earlier_logit(model: Callable[..., ConditionalLM]) -> None:
    built = model()
    tokens = texts(9)[0][None]
    other = tokens.clone()
    other[0, -1] = (other[0, -1] + 1) % VOCABULARY
    before, after = built(tokens), built(other)
    assert torch.equal(before[:, :-1], after[:, :-1])
    assert not torch.equal(before[:, -1], after[:, -1])


def test_what_does_not_fit_is_refused(model: Callable[..., ConditionalLM]) -> None:
    built = model("mha")
    with pytest.raises(ShapeError, match="expected \\[batch, tokens\\]"):
        built(torch.zeros(3, dtype=torch.long))
    with pytest.raises(ShapeError, match="key_mask has shape"):
        built(torch.zeros(2, 3, dtype=torch.long), torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(TypeError, match="bool"):
        built(torch.zeros(2, 3, dtype=torch.long), torch.ones(2, 3))
    with pytest.raises(ValueError, match="is_causal=True"):
        ConditionalLM(5, transformer=TransformerPC(4, 2, 4, 1, use_M=False, is_causal=False))


def test_first_scores_are_of_order_one() -> None:
    torch.manual_seed(0)
    built = ConditionalLM(500, transformer=TransformerPC(64, 4, 64, 2, use_M=False))
    logits = built(torch.randint(0, 500, (4, 20)))
    assert 0.3 < logits.std().item() < 3
