"""The pre-norm block and its feed-forward network against their formulas."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from damcha_core.attention import DamchaAttention, MultiHeadAttention
from damcha_core.models.block import Block, FeedForward


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("layer_class", [MultiHeadAttention, DamchaAttention])
def test_a_block_adds_two_branches_of_normalised_input(layer_class, is_causal) -> None:
    torch.manual_seed(0)
    block = Block(layer_class(15, 5), d_model=15, d_ff=11).double()
    x = torch.randn(3, 7, 15, dtype=torch.float64)
    mask = torch.arange(7) < torch.tensor([[7], [4], [1]])
    masks = {"key_mask": mask, "is_causal": is_causal}
    middle = x + block.attention(functional.layer_norm(x, (15,), eps=1e-5), **masks)
    expected = middle + block.feed_forward(functional.layer_norm(middle, (15,), eps=1e-5))
    torch.testing.assert_close(block(x, **masks), expected, rtol=0, atol=1e-12)


def test_the_feed_forward_network_is_linear_exact_gelu_linear_with_biases() -> None:
    torch.manual_seed(0)
    network = FeedForward(6, 9).double()
    x = torch.randn(4, 6, dtype=torch.float64)
    first, last = network[0], network[3]
    hidden = x @ first.weight.T + first.bias
    exact = 0.5 * hidden * (1 + torch.erf(hidden / 2**0.5))
    torch.testing.assert_close(network(x), exact @ last.weight.T + last.bias, rtol=0, atol=1e-12)


def test_dropout_reaches_both_branches_in_training_alone() -> None:
    torch.manual_seed(0)
    block = Block(MultiHeadAttention(6, 3), d_model=6, d_ff=8, dropout=0.9)
    x = torch.randn(50, 1, 6)
    # A branch that is dropped whole leaves the input as it is.
    assert (block(x) == x).any()
    block.eval()
    assert not (block(x) == x).any()
    assert torch.equal(block(x), block(x))
