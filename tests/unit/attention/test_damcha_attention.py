"""DAMCHA attention: special cases that have a name, sharing, and what it refuses."""

from __future__ import annotations

import copy

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

from damcha_core.attention import AttentionStack, DamchaAttention, MetricGenerator, build_damcha
from damcha_core.attention.layer import merge_heads
from damcha_core.attention.structures import STRUCTURES
from damcha_core.errors import ShapeError

HEADS, WIDTH = 5, 15
SMALL = {"mlp_hidden": (7, 11)}


class Model(nn.Module):
    """A stack as a model registers it."""

    def __init__(self, stack: AttentionStack) -> None:
        super().__init__()
        self.shared = stack.shared
        self.layers = nn.ModuleList(stack.layers)

    def forward(self, x, **masks):
        for layer in self.layers:
            x = x + layer(x, **masks)
        return x


def tokens(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(3, 7, WIDTH, dtype=dtype)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("structure", [s for s in STRUCTURES if s != "low_rank"])
def test_an_identity_layer_is_plain_dot_product_attention(structure: str, is_causal: bool) -> None:
    layer = DamchaAttention(WIDTH, HEADS, structure=structure, init="identity").double()
    x = tokens()
    heads = layer.split_heads(x)
    plain = functional.scaled_dot_product_attention(
        heads, heads, layer.split_heads(layer.value(x)), is_causal=is_causal
    )
    expected = layer.out(merge_heads(plain))
    torch.testing.assert_close(layer(x, is_causal=is_causal), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
def test_constant_metrics_are_torchs_attention_with_the_metrics_as_query_weights(
    is_causal: bool, padded: bool, redraw
) -> None:
    layer = DamchaAttention(WIDTH, HEADS, source="static").double()
    redraw(layer, 3)
    x = tokens()
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).double()
    w_q = torch.block_diag(*layer.generator.static.mT)
    theirs.load_state_dict(
        {
            "in_proj_weight": torch.cat([w_q, torch.eye(WIDTH), layer.value.weight]),
            "in_proj_bias": torch.cat([torch.zeros(2 * WIDTH), layer.value.bias]),
            "out_proj.weight": layer.out.weight,
            "out_proj.bias": layer.out.bias,
        }
    )
    keep = torch.ones(3, 7, dtype=torch.bool)
    keep[1, 4:] = not padded
    blocked = torch.ones(7, 7, dtype=torch.bool).triu(1) if is_causal else None

    expected, _ = theirs(x, x, x, attn_mask=blocked, key_padding_mask=~keep, need_weights=False)
    out = layer(x, key_mask=keep if padded else None, is_causal=is_causal)
    torch.testing.assert_close(out[keep], expected[keep], rtol=0, atol=1e-12)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("source", ["adaptive", "static"])
def test_head_and_matrix_forms_are_one_function(source: str, is_causal: bool, redraw) -> None:
    matrix = DamchaAttention(WIDTH, HEADS, output="matrix", source=source, **SMALL).double()
    redraw(matrix, 4)
    head = copy.deepcopy(matrix)
    head.generator = matrix.generator.to_head()
    x = tokens()
    mask = torch.rand(3, 7) > 0.4
    ours = head(x, key_mask=mask, is_causal=is_causal)
    torch.testing.assert_close(
        ours, matrix(x, key_mask=mask, is_causal=is_causal), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("init", ["identity", "random"])
def test_one_seed_starts_both_forms_alike(init: str) -> None:
    outputs = []
    for output in ("head", "matrix"):
        torch.manual_seed(8)
        layer = DamchaAttention(WIDTH, HEADS, output=output, init=init, **SMALL)
        torch.manual_seed(9)
        outputs.append(layer(tokens(torch.float32)))
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-5)


def test_block_diagonal_is_the_function_class_of_full(redraw) -> None:
    full = DamchaAttention(WIDTH, HEADS, **SMALL)
    block = DamchaAttention(WIDTH, HEADS, structure="block_diagonal", **SMALL)
    redraw(full, 4)
    block.load_state_dict(full.state_dict())
    x = tokens(torch.float32)
    assert torch.equal(full(x, is_causal=True), block(x, is_causal=True))


def test_a_shared_generator_is_owned_once() -> None:
    model = Model(build_damcha(WIDTH, HEADS, 3, **SMALL))
    owned = [name for name in model.state_dict() if "last_weight" in name]
    assert owned == ["shared.last_weight"]
    assert all(layer.generator is model.shared for layer in model.layers)
    assert sum("generator" in name for name, _ in model.layers.named_parameters()) == 0


def test_unshared_generators_belong_to_their_layers() -> None:
    stack = build_damcha(WIDTH, HEADS, 3, share=False, **SMALL)
    model = Model(stack)
    assert stack.shared is None
    assert len({id(layer.generator) for layer in model.layers}) == 3
    assert sum("last_weight" in name for name in model.state_dict()) == 3


def test_copies_casts_and_gradients_reach_the_shared_generator(redraw) -> None:
    model = Model(build_damcha(WIDTH, HEADS, 2, **SMALL))
    redraw(model, 1)
    twin = copy.deepcopy(model).double()
    assert twin.shared is not model.shared
    assert all(layer.generator is twin.shared for layer in twin.layers)
    assert twin.layers[0].generator.last_bias.dtype == torch.float64
    assert model.shared.last_bias.dtype == torch.float32
    x = tokens()
    torch.testing.assert_close(twin(x).float(), model(x.float()), rtol=1e-4, atol=1e-4)
    twin(x).sum().backward()
    assert twin.shared.last_weight.grad.any()
    with torch.no_grad():
        before = twin(x)
        twin.shared.last_bias.add_(1.0)
        assert not torch.allclose(twin(x), before)


@pytest.mark.parametrize("share", [True, False])
def test_a_state_dict_survives_safetensors(share: bool, tmp_path, redraw) -> None:
    model, other = (Model(build_damcha(WIDTH, HEADS, 2, share=share, **SMALL)) for _ in range(2))
    redraw(model, 1)
    save_file(model.state_dict(), tmp_path / "weights.safetensors")
    other.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    x = tokens(torch.float32)
    assert torch.equal(other(x), model(x))


def test_swapping_the_generator_of_a_lone_layer_registers_it() -> None:
    layer = DamchaAttention(WIDTH, HEADS, output="matrix", **SMALL)
    layer.generator = layer.generator.to_head()
    assert layer.state_dict()["generator.last_weight"].shape == (WIDTH * 3, 11)


def test_a_lone_layer_can_borrow_instead() -> None:
    layer, other = (DamchaAttention(WIDTH, HEADS, **SMALL) for _ in range(2))
    layer.borrow(other.generator)
    assert layer.generator is other.generator
    assert sorted(layer.state_dict()) == ["out.bias", "out.weight", "value.bias", "value.weight"]


def test_metrics_and_matrices_of_given_tokens() -> None:
    layer = DamchaAttention(WIDTH, HEADS, structure="psd", **SMALL)
    x = tokens(torch.float32)
    assert layer.head_metrics(x).shape == (3, HEADS, 3, 3)
    assert layer.head_metrics(x, is_causal=True).shape == (3, 7, HEADS, 3, 3)
    assert layer.metric_matrix(x).shape == (3, WIDTH, WIDTH)
    assert layer.metric_matrix(x, is_causal=True).shape == (3, 7, WIDTH, WIDTH)
    with pytest.raises(TypeError, match="bool"):
        layer.metric_matrix(x, key_mask=torch.ones(3, 7))


def test_options_beside_a_generator_are_refused() -> None:
    with pytest.raises(TypeError, match="a given generator has its own init, structure"):
        DamchaAttention(
            WIDTH, HEADS, generator=MetricGenerator(WIDTH, HEADS), structure="psd", init="random"
        )


@pytest.mark.parametrize(("d_model", "n_heads"), [(WIDTH, 3), (30, HEADS)])
def test_a_generator_of_another_size_is_refused(d_model: int, n_heads: int) -> None:
    with pytest.raises(ShapeError, match="the generator is for d_model 15 and 5 heads"):
        DamchaAttention(d_model, n_heads, generator=MetricGenerator(WIDTH, HEADS))


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="strcture"):
        build_damcha(WIDTH, HEADS, 2, strcture="psd")


def test_projections_start_as_those_of_multi_head_attention() -> None:
    layer = DamchaAttention(120, 4)
    torch_layer = nn.MultiheadAttention(120, 4)
    pairs = [
        (layer.value.weight, torch_layer.in_proj_weight),
        (layer.out.weight, torch_layer.out_proj.weight),
    ]
    for ours, theirs in pairs:
        assert ours.abs().max().item() == pytest.approx(theirs.abs().max().item(), rel=0.01)
        assert ours.std().item() == pytest.approx(theirs.std().item(), rel=0.02)
    assert not layer.value.bias.any()
    assert not layer.out.bias.any()


def test_multi_head_projections_start_as_torchs() -> None:
    from damcha_core.attention import MultiHeadAttention

    layer, torch_layer = MultiHeadAttention(120, 4), nn.MultiheadAttention(120, 4)
    assert layer.qkv.weight.std().item() == pytest.approx(
        torch_layer.in_proj_weight.std().item(), rel=0.02
    )
    assert not layer.qkv.bias.any()
    assert not layer.out.bias.any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("is_causal", "refresh"), [(False, "token"), (True, "token"), (True, "geometric")]
)
def test_the_layer_compiles_into_one_graph(is_causal: bool, refresh: str, redraw) -> None:
    options = SMALL | {"refresh": refresh, "refresh_ratio": 2}
    model = Model(build_damcha(WIDTH, HEADS, 1, structure="psd", **options))
    redraw(model, 1)
    x, mask = tokens(torch.float32), torch.rand(3, 7) > 0.3
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    expected = torch.autograd.grad(
        model(x, key_mask=mask, is_causal=is_causal).sum(), list(model.parameters())
    )
    got = torch.autograd.grad(
        compiled(x, key_mask=mask, is_causal=is_causal).sum(), list(model.parameters())
    )
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("is_causal", [False, True])
def test_a_given_context_takes_the_place_of_the_own_one(is_causal):
    torch.manual_seed(3)
    layer = DamchaAttention(8, 2, init="random", mlp_hidden=(4,)).double()
    x_BND = torch.randn(2, 5, 8, dtype=torch.float64)
    context = layer.context(x_BND, None, is_causal)
    own_BND = layer(x_BND, is_causal=is_causal)
    with layer.given_context(context):
        assert torch.equal(layer(x_BND, is_causal=is_causal), own_BND)
    with layer.given_context(context.flip(0)):
        other_BND = layer(x_BND, is_causal=is_causal)
    assert not torch.allclose(other_BND, own_BND)
    with layer.given_context(context.flip(0)), pytest.raises(ValueError, match="with a cache"):
        layer(x_BND, is_causal=True, cache=layer.new_cache())
    assert torch.equal(layer(x_BND, is_causal=is_causal), own_BND)
