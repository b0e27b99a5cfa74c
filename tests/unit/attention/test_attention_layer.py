"""What every attention layer refuses."""

from __future__ import annotations

import pytest
import torch

from damcha_core.attention import AttentionLayer, DamchaAttention, MultiHeadAttention
from damcha_core.attention.layer import keep_real, merge_heads
from damcha_core.errors import ShapeError

LAYERS = [MultiHeadAttention, DamchaAttention]


@pytest.mark.parametrize("layer_class", LAYERS)
@pytest.mark.parametrize(
    ("d_model", "n_heads", "message"),
    [
        (10, 3, "n_heads must divide d_model"),
        (0, 1, "at least 1"),
        (8, 0, "at least 1"),
        (8, -2, "at least 1"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(layer_class, d_model, n_heads, message) -> None:
    with pytest.raises(ValueError, match=message):
        layer_class(d_model, n_heads)


@pytest.mark.parametrize("layer_class", LAYERS)
@pytest.mark.parametrize("dropout", [-0.1, 1.0, float("nan")])
def test_a_dropout_outside_its_range_is_refused(layer_class, dropout: float) -> None:
    with pytest.raises(ValueError, match="dropout must be at least 0 and below 1"):
        layer_class(6, 3, dropout=dropout)


@pytest.mark.parametrize("layer_class", LAYERS)
@pytest.mark.parametrize("shape", [(2, 5, 7), (2, 6), (1, 2, 5, 6)])
def test_tokens_of_another_shape_are_refused(layer_class, shape) -> None:
    with pytest.raises(ShapeError, match=r"shape \(batch, tokens, 6\)"):
        layer_class(6, 3)(torch.zeros(shape))


@pytest.mark.parametrize("layer_class", LAYERS)
@pytest.mark.parametrize(
    "mask",
    [torch.ones(2, 5), torch.ones(2, 5, dtype=torch.uint8), torch.ones(2, 5).long(), [[True] * 5]],
    ids=["float", "uint8", "int64", "list"],
)
def test_a_mask_that_is_not_bool_is_refused(layer_class, mask) -> None:
    with pytest.raises(TypeError, match="key_mask must be a bool tensor, True = real token"):
        layer_class(6, 3)(torch.zeros(2, 5, 6), key_mask=mask)


@pytest.mark.parametrize("layer_class", LAYERS)
@pytest.mark.parametrize("shape", [(2, 4), (1, 5), (5,), (2, 1, 1, 5)])
def test_a_mask_of_another_shape_is_refused(layer_class, shape) -> None:
    with pytest.raises(ShapeError, match=r"key_mask must have the shape \(2, 5\)"):
        layer_class(6, 3)(torch.zeros(2, 5, 6), key_mask=torch.ones(shape, dtype=torch.bool))


def test_a_layer_has_to_say_how_it_attends() -> None:
    with pytest.raises(NotImplementedError):
        AttentionLayer(6, 3)(torch.zeros(2, 5, 6))


def test_heads_are_contiguous_slices_of_the_features() -> None:
    x = torch.arange(12.0).view(1, 2, 6)
    heads = AttentionLayer(6, 3).split_heads(x)
    assert heads[0, 1].tolist() == [[2.0, 3.0], [8.0, 9.0]]
    assert torch.equal(merge_heads(heads), x)


def test_what_is_masked_is_replaced_and_gets_no_gradient() -> None:
    x = torch.tensor([[[1.0], [float("nan")], [float("inf")]]], requires_grad=True)
    kept = keep_real(x, torch.tensor([[True, False, False]]))
    kept.sum().backward()
    assert kept.flatten().tolist() == [1.0, 0.0, 0.0]
    assert x.grad.flatten().tolist() == [1.0, 0.0, 0.0]


def test_a_layer_says_its_sizes() -> None:
    assert "d_model=6, n_heads=3, dropout=0.5" in repr(MultiHeadAttention(6, 3, dropout=0.5))
    assert "structure=psd, output=head, source=adaptive, rank=2" in repr(
        DamchaAttention(6, 3, structure="psd")
    )
