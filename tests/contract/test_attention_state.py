"""Parameters, modes and dtypes of every layer of the catalogue."""

from __future__ import annotations

import copy

import pytest
import torch
from safetensors.torch import load_file, save_file

from damcha_core.attention import DamchaAttention, parameter_groups
from damcha_core.catalog.attentions import attention_row
from damcha_core.errors import ShapeError

BATCH, TOKENS, WIDTH, HEADS = 3, 7, 30, 5
MASK = torch.tensor(
    [[True] * TOKENS, [False, False, True, True, False, True, True], [True] * 4 + [False] * 3]
)
BOTH = pytest.mark.parametrize("is_causal", [False, True])


def tokens(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(BATCH, TOKENS, WIDTH).to(dtype)


def test_masks_of_another_type_or_shape_are_refused(layer) -> None:
    with pytest.raises(TypeError, match="bool"):
        layer(tokens(), key_mask=MASK.float())
    with pytest.raises(ShapeError, match="key_mask"):
        layer(tokens(), key_mask=MASK[:, 1:])
    with pytest.raises(ShapeError, match="tokens"):
        layer(tokens()[..., 1:])


@BOTH
def test_the_shape_is_kept_and_every_parameter_is_used(name, build, is_causal: bool) -> None:
    model = build(name)
    x = tokens().requires_grad_()
    out = model(x, key_mask=MASK, is_causal=is_causal)
    assert out.shape == x.shape
    out.square().sum().backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all(), parameter_name
        assert parameter.grad.any(), parameter_name


@pytest.mark.parametrize("n_layers", [1, 3])
def test_parameters_are_as_many_as_the_row_says(name, build, sizes, n_layers: int) -> None:
    n_heads, options = sizes
    counted = sum(p.numel() for p in build(name, n_layers).parameters())
    assert counted == attention_row(name).parameters(WIDTH, n_heads, n_layers, options)


def test_a_state_dict_survives_safetensors(name, build, redraw, tmp_path) -> None:
    model = build(name)
    save_file(model.state_dict(), tmp_path / "weights.safetensors")
    other = redraw(build(name), seed=3)
    x = tokens()
    assert not torch.equal(other(x), model(x))
    other.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    assert torch.equal(other(x, is_causal=True), model(x, is_causal=True))


def test_a_copy_is_independent(name, build) -> None:
    model = build(name)
    x = tokens()
    before = model(x)
    twin = copy.deepcopy(model)
    assert torch.equal(twin(x), before)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert torch.equal(model(x), before)
    assert not torch.equal(twin(x), before)


def test_every_parameter_is_in_one_optimiser_group(name, build) -> None:
    model = build(name)
    grouped = [p for g in parameter_groups(model, lr=1.0, weight_decay=0.1) for p in g["params"]]
    assert sorted(map(id, grouped)) == sorted(map(id, model.parameters()))


@BOTH
def test_training_and_evaluation_agree_without_dropout(layer, is_causal: bool) -> None:
    x = tokens()
    trained = layer.train()(x, key_mask=MASK, is_causal=is_causal)
    assert torch.equal(layer.eval()(x, key_mask=MASK, is_causal=is_causal), trained)


@BOTH
def test_dropout_acts_in_training_alone(name, build, is_causal: bool) -> None:
    layer, plain = build(name, dropout=0.5).layers[-1], build(name).layers[-1]
    x = tokens()
    masks = {"key_mask": MASK, "is_causal": is_causal}
    assert not torch.equal(layer(x, **masks), layer(x, **masks))
    torch.manual_seed(3)
    once = layer(x, **masks)
    torch.manual_seed(3)
    assert torch.equal(layer(x, **masks), once)
    layer.eval()
    assert torch.equal(layer(x, **masks), layer(x, **masks))
    torch.testing.assert_close(layer(x, **masks), plain(x, **masks))


@BOTH
def test_bfloat16_autocast_stays_near_float32(name, build, is_causal: bool) -> None:
    model = build(name, n_layers=1)
    x = tokens().requires_grad_()
    masks = {"key_mask": MASK, "is_causal": is_causal}
    exact = model.layers[0](x, **masks)
    (exact_grad,) = torch.autograd.grad(exact[MASK].square().sum(), x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        near = model.layers[0](x, **masks)
    near[MASK].float().square().sum().backward()
    assert ((near - exact).norm() / exact.norm()).item() < 0.05
    assert ((x.grad - exact_grad).norm() / exact_grad.norm()).item() < 0.15
    assert all(p.grad.dtype == torch.float32 for p in model.parameters())


@BOTH
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_dtypes_give_finite_outputs_and_gradients(name, build, dtype, is_causal) -> None:
    model = build(name).to(dtype)
    out = model(tokens(dtype), key_mask=MASK, is_causal=is_causal)
    assert out.dtype == dtype
    assert out.isfinite().all()
    out.float().square().mean().backward()
    for parameter in model.parameters():
        assert parameter.grad.isfinite().all()


def test_one_token_and_an_empty_batch_are_accepted(layer) -> None:
    for is_causal in (False, True):
        assert layer(torch.randn(2, 1, WIDTH), is_causal=is_causal).shape == (2, 1, WIDTH)
        assert layer(torch.randn(0, 4, WIDTH), is_causal=is_causal).shape == (0, 4, WIDTH)


def test_tokens_need_not_be_contiguous(layer) -> None:
    x = torch.randn(TOKENS, BATCH, WIDTH).transpose(0, 1)
    for is_causal in (False, True):
        out = layer(x, is_causal=is_causal)
        torch.testing.assert_close(out, layer(x.contiguous(), is_causal=is_causal))


class Renormalised(DamchaAttention):
    """Broken: dropout is applied in evaluation too."""

    def attend(self, x_BND, key_mask, is_causal, carry, cache):
        self.training = True
        return super().attend(x_BND, key_mask, is_causal, carry, cache)


def test_a_twin_that_drops_in_evaluation_is_found(redraw) -> None:
    twin = redraw(Renormalised(WIDTH, HEADS, dropout=0.5, mlp_hidden=(7, 11))).eval()
    x = tokens()
    assert not torch.equal(twin(x), twin(x))
