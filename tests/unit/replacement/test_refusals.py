"""What replace_attention refuses, by name, and what it leaves alone then."""

from __future__ import annotations

import copy

import pytest
import torch
from foreign_models import HEADS, LAYERS, TOKENS, WIDTH, torch_encoder
from torch import nn
from torch.utils.checkpoint import checkpoint

from damcha_core import replace_attention
from damcha_core.catalog.controls import control_rows
from damcha_core.errors import UsageError
from damcha_core.replacement.stand_in import StandIn
from damcha_core.replacement.torch_attention import TorchStandIn

X = torch.randn(2, TOKENS, WIDTH)


class Holder(nn.Module):
    """A module with one attention of torch."""

    def __init__(self, *arguments: object, kind=nn.MultiheadAttention, **settings: object) -> None:
        super().__init__()
        self.attention = kind(*arguments, batch_first=True, **settings)


def holder(name: str = "mha") -> nn.Module:
    module = Holder(WIDTH, HEADS)
    replace_attention(module, name)
    return module.attention


def decoder() -> nn.TransformerDecoder:
    layer = nn.TransformerDecoderLayer(WIDTH, HEADS, 16, dropout=0.0, batch_first=True)
    return nn.TransformerDecoder(layer, 2)


@pytest.mark.parametrize("name", [row.name for row in control_rows()])
def test_controls_are_refused_and_nothing_changes(name: str) -> None:
    encoder = torch_encoder()
    with pytest.raises(UsageError, match=f"^{name} is a control, not a layer"):
        replace_attention(encoder, name)
    assert not any(isinstance(part, StandIn) for part in encoder.modules())


def test_an_unknown_name_lists_the_names() -> None:
    with pytest.raises(UsageError, match="did you mean damcha"):
        replace_attention(torch_encoder(), "damhca")


def test_cross_attention_of_a_decoder_is_named_and_can_be_skipped() -> None:
    module = decoder()
    crossing = [f"layers.{number}.multihead_attn" for number in range(2)]
    with pytest.raises(UsageError) as caught:
        replace_attention(module, "damcha")
    for name in crossing:
        assert f"{name}: it is the cross-attention of nn.TransformerDecoderLayer" in str(
            caught.value
        )
    assert str(caught.value).endswith(f"skip={crossing}")
    assert not any(isinstance(part, StandIn) for part in module.modules())
    assert replace_attention(module, "damcha", skip=crossing) == [
        "layers.0.self_attn",
        "layers.1.self_attn",
    ]
    later = nn.Transformer.generate_square_subsequent_mask(TOKENS)
    before = module(X, X, tgt_mask=later)
    other = torch.cat([X[:, :3], torch.randn(2, TOKENS - 3, WIDTH)], 1)
    assert torch.equal(module(other, X, tgt_mask=later)[:, :3], before[:, :3])


def test_cross_attention_is_refused_when_it_is_called() -> None:
    attention = holder()
    for arguments in ((X, X + 1, X), (X, X, X + 1)):
        with pytest.raises(UsageError, match=r"^attention: key and value are not the tensor"):
            attention(*arguments)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"kdim": 8}, "its keys and values have another width than its queries"),
        ({"vdim": 8}, "its keys and values have another width than its queries"),
        ({"add_bias_kv": True}, "it adds a key and a value of its own"),
        ({"add_zero_attn": True}, "it adds a key and a value of its own"),
    ],
)
def test_attentions_with_more_to_them_are_refused(settings, reason: str) -> None:
    with pytest.raises(UsageError, match=f"cannot be replaced: attention: {reason}"):
        replace_attention(Holder(WIDTH, HEADS, **settings), "mha")


def test_a_subclass_with_a_forward_of_its_own_is_refused() -> None:
    class Louder(nn.MultiheadAttention):
        def forward(self, *arguments, **settings):
            return super().forward(*arguments, **settings)

    with pytest.raises(UsageError, match="Louder computes something of its own"):
        replace_attention(Holder(WIDTH, HEADS, kind=Louder), "mha")


def test_masks_of_another_kind_are_refused() -> None:
    attention = holder()
    banded = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril(-3)
    per_head = torch.zeros(2 * HEADS, TOKENS, TOKENS, dtype=torch.bool)
    per_head[1, 0, 3] = True
    not_itself = torch.eye(TOKENS, dtype=torch.bool)
    for mask in (banded, per_head, not_itself):
        with pytest.raises(UsageError, match="neither causal nor a mask of tokens"):
            attention(X, X, X, attn_mask=mask)
    for mask in (torch.randn(TOKENS, TOKENS), torch.full((TOKENS, TOKENS), -1e9)):
        with pytest.raises(UsageError, match="may hold 0 and minus infinity alone"):
            attention(X, X, X, attn_mask=mask)
    with pytest.raises(UsageError, match="may hold 0 and minus infinity alone"):
        attention(X, X, X, key_padding_mask=torch.full((2, TOKENS), 0.5))


def test_masks_that_say_nothing_or_the_same_in_all_heads_are_fine() -> None:
    attention = holder().eval()
    nothing = torch.zeros(TOKENS, TOKENS, dtype=torch.bool)
    plain, no_weights = attention(X, X, X)
    assert no_weights is None
    assert torch.equal(attention(X, X, X, attn_mask=nothing)[0], plain)
    later = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)
    causal = attention(X, X, X, attn_mask=later)[0]
    assert not torch.equal(causal, plain)
    assert torch.equal(attention(X, X, X, is_causal=True)[0], causal)
    three = later.expand(2 * HEADS, -1, -1)
    torch.testing.assert_close(attention(X, X, X, attn_mask=three)[0], causal)
    # a mask of tokens may be given as a mask of pairs
    columns = torch.zeros(TOKENS, TOKENS, dtype=torch.bool)
    columns[:, 5:] = True
    padding = torch.arange(TOKENS).expand(2, -1) >= 5
    by_pairs = attention(X, X, X, attn_mask=columns)[0]
    by_tokens = attention(X, X, X, key_padding_mask=padding)[0]
    torch.testing.assert_close(by_pairs[:, :5], by_tokens[:, :5])
    columns[5:] = True  # which real tokens a masked one sees does not matter
    torch.testing.assert_close(attention(X, X, X, attn_mask=columns)[0], by_pairs)
    both = attention(X, X, X, attn_mask=columns, key_padding_mask=padding & (padding.cumsum(1) > 1))
    torch.testing.assert_close(both[0][:, :5], by_tokens[:, :5])
    alone = X[1]
    one = attention(alone, alone, alone, key_padding_mask=padding[1])[0]
    torch.testing.assert_close(one[:5], by_tokens[1, :5])


def test_heads_that_a_row_cannot_have_are_refused() -> None:
    with pytest.raises(UsageError, match="differential takes its heads 2 at a time; attention has"):
        replace_attention(Holder(WIDTH, 3), "differential")


def test_attentions_of_several_sizes_take_a_call_each() -> None:
    module = nn.ModuleDict({"a": Holder(WIDTH, HEADS), "b": Holder(WIDTH, 2)})
    with pytest.raises(UsageError) as caught:
        replace_attention(module, "damcha")
    assert "width 24 with 4 heads: a.attention; width 24 with 2 heads: b.attention" in str(
        caught.value
    )
    assert replace_attention(module, "damcha", skip=["b.attention"]) == ["a.attention"]
    assert replace_attention(module, "damcha") == ["b.attention"]


def test_nothing_to_replace_and_unknown_names_in_skip() -> None:
    with pytest.raises(UsageError, match="nothing to replace inside Linear"):
        replace_attention(nn.Linear(3, 3), "mha")
    with pytest.raises(UsageError, match="nothing to replace inside MultiheadAttention"):
        replace_attention(nn.MultiheadAttention(WIDTH, HEADS), "mha")
    with pytest.raises(UsageError, match=r"skip names layers\.9; the attentions here are: layers"):
        replace_attention(torch_encoder(), "mha", skip=["layers.9"])


def test_options_are_checked_before_anything_changes() -> None:
    encoder = torch_encoder()
    with pytest.raises(ValueError, match="structure must be one of"):
        replace_attention(encoder, "damcha", options={"structure": "round"})
    with pytest.raises(TypeError):
        replace_attention(encoder, "mha", options={"structure": "full"})
    with pytest.raises(UsageError, match="fixes structure"):
        replace_attention(encoder, "damcha-psd", options={"structure": "full"})
    assert all(isinstance(layer.self_attn, nn.MultiheadAttention) for layer in encoder.layers)


def test_an_attention_in_two_places_stays_one() -> None:
    one = Holder(WIDTH, HEADS)
    module = nn.ModuleDict({"a": one, "b": one, "c": Holder(WIDTH, HEADS)})
    module.again = one.attention
    assert replace_attention(module, "damcha") == ["again", "c.attention"]
    assert module.a.attention is module.b.attention is module.again
    assert isinstance(module.again, TorchStandIn)


def test_a_part_of_an_encoder_is_explained_where_the_whole_is_needed() -> None:
    encoder = torch_encoder().eval()
    replace_attention(encoder.layers, "mha")
    padding = torch.arange(TOKENS).expand(2, -1) >= 5
    with torch.no_grad(), pytest.raises(AttributeError, match="hand all of it to replace_attent"):
        encoder(X, src_key_padding_mask=padding)
    assert not hasattr(encoder.layers[0].self_attn, "in_proj_weight")


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_nested_tensors_are_refused() -> None:
    nested = torch.nested.nested_tensor([X[0], X[1, :3]])
    with pytest.raises(UsageError, match="nested tensors are not supported"):
        holder()(nested, nested, nested)


def test_values_are_handed_on_in_order_or_not_at_all() -> None:
    encoder = torch_encoder()
    replace_attention(encoder, "elliptical")
    with pytest.raises(UsageError, match=r"^layers\.1\.self_attn: this attention reads what"):
        encoder.layers[1](X)
    encoder(X).sum().backward()
    x = X.clone().requires_grad_()
    out = x
    for layer in encoder.layers:
        out = checkpoint(layer, out, use_reentrant=False)
    with pytest.raises(UsageError, match="activation checkpointing"):
        out.sum().backward()
    plain = torch_encoder()
    replace_attention(plain, "damcha", options={"mlp_hidden": (5,)})
    out = x
    for layer in plain.layers:
        out = checkpoint(layer, out, use_reentrant=False)
    out.sum().backward()


def test_a_failed_pass_does_not_spoil_the_next() -> None:
    encoder = torch_encoder().eval()
    replace_attention(encoder, "elliptical")
    expected = encoder(X)
    encoder.layers[0](X)
    assert torch.equal(encoder(X), expected)
    assert len(encoder.layers) == LAYERS
    assert torch.equal(copy.deepcopy(encoder)(X), expected)
