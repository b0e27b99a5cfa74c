"""Every row in nn.TransformerEncoder: training, evaluation, padding, causality, state."""

from __future__ import annotations

import copy

import pytest
import torch
from foreign_models import (
    HEADS,
    LAYERS,
    TOKENS,
    WIDTH,
    losses_of_training,
    redrawn,
    small,
    torch_encoder,
)
from safetensors.torch import load_file, save_file
from torch import nn

from damcha_core import replace_attention

# torch says once a process that nested tensors, which its own encoder uses, are a prototype.
pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")

PADDED = torch.arange(TOKENS) >= torch.tensor([[TOKENS], [5], [3]])
"""True = not a real token, which is torch's way."""
LATER = nn.Transformer.generate_square_subsequent_mask(TOKENS)
SITES = [f"layers.{number}.self_attn" for number in range(LAYERS)]


def replaced(name: str, **settings: object) -> nn.TransformerEncoder:
    encoder = torch_encoder(**settings)
    names = replace_attention(encoder, name, options=small(name))
    assert names == SITES[: len(names)]
    return encoder


def tokens() -> torch.Tensor:
    return torch.randn(3, TOKENS, WIDTH)


def test_it_learns_with_padding(name: str) -> None:
    encoder, x, target = replaced(name), tokens(), tokens()

    def loss() -> torch.Tensor:
        out = encoder(x, src_key_padding_mask=PADDED)
        return (out - target)[~PADDED].square().mean()

    losses = losses_of_training(encoder, loss)
    assert losses[-1] < 0.8 * losses[0]
    assert all(p.grad is not None for p in encoder.parameters())


def test_evaluation_and_training_agree_and_both_read_the_new_weights(name: str) -> None:
    """Without the swap, evaluation would be computed from the old weights, past the modules."""
    encoder, x = redrawn(replaced(name)), tokens()
    with torch.no_grad():
        trained = encoder.train()(x, src_key_padding_mask=PADDED)
        evaluated = encoder.eval()(x, src_key_padding_mask=PADDED)
    assert torch.equal(evaluated[~PADDED], trained[~PADDED])
    before = evaluated[~PADDED]
    for number, layer in enumerate(encoder.layers):
        for parameter in layer.self_attn.attention.parameters():
            with torch.no_grad():
                parameter.copy_(0.3 * torch.randn_like(parameter))
                moved = encoder(x, src_key_padding_mask=PADDED)[~PADDED]
            assert not torch.equal(moved, before), number
            before = moved


@pytest.mark.parametrize("is_eval", [True, False])
def test_padding_does_not_leak(name: str, is_eval: bool) -> None:
    encoder, x = redrawn(replaced(name)).train(not is_eval), tokens()
    with torch.no_grad():
        before = encoder(x, src_key_padding_mask=PADDED)
        after = encoder(torch.where(PADDED[..., None], 9.0, x), src_key_padding_mask=PADDED)
        open_ = encoder(torch.where(PADDED[..., None], 9.0, x))
    assert torch.equal(after[~PADDED], before[~PADDED])
    assert not torch.equal(open_[~PADDED], before[~PADDED])


@pytest.mark.parametrize("padding", [None, PADDED], ids=["whole", "padded"])
def test_a_causal_mask_hides_what_comes_later(name: str, padding) -> None:
    encoder, x = redrawn(replaced(name)).eval(), tokens()
    other = x.clone()
    other[:, 2:] = torch.randn(3, TOKENS - 2, WIDTH)
    with torch.no_grad():
        for mask in (LATER, LATER.isinf()):
            masks = {"mask": mask, "src_key_padding_mask": padding}
            if padding is not None and mask.dtype != torch.bool:
                masks["src_key_padding_mask"] = torch.zeros(PADDED.shape).masked_fill(
                    padding, -torch.inf
                )
            before, after = encoder(x, **masks), encoder(other, **masks)
            assert torch.equal(after[:, :2], before[:, :2])
            assert not torch.equal(after[:, 2], before[:, 2])
        assert not torch.equal(encoder(other)[:, :2], encoder(x)[:, :2])


def test_tokens_first_gives_the_same(name: str) -> None:
    first, second = redrawn(replaced(name)).eval(), redrawn(replaced(name, batch_first=False))
    x = tokens()
    with torch.no_grad():
        expected = first(x, src_key_padding_mask=PADDED)
        found = second.eval()(x.transpose(0, 1), src_key_padding_mask=PADDED).transpose(0, 1)
        one = second(x[0])
    torch.testing.assert_close(found[~PADDED], expected[~PADDED])
    torch.testing.assert_close(one, expected[0])


def test_the_state_survives_a_file_and_a_copy(name: str, tmp_path) -> None:
    encoder, x = redrawn(replaced(name)).eval(), tokens()
    save_file(encoder.state_dict(), tmp_path / "weights.safetensors")
    other = redrawn(replaced(name), seed=1).eval()
    with torch.no_grad():
        assert not torch.equal(other(x), encoder(x))
        other.load_state_dict(load_file(tmp_path / "weights.safetensors"))
        assert torch.equal(other(x), encoder(x))
        twin = copy.deepcopy(encoder)
        redrawn(encoder, seed=2)
        assert torch.equal(twin(x), other(x))
        assert not torch.equal(encoder(x), other(x))


def test_dropout_rates_and_number_formats_stay(name: str) -> None:
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, dropout=0.25, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).to(torch.bfloat16).eval()
    replace_attention(encoder, name, options=small(name))
    stand_in = encoder.layers[1].self_attn
    assert stand_in.attention.dropout == 0.25
    assert not stand_in.training
    assert {p.dtype for p in encoder.parameters()} == {torch.bfloat16}
    assert encoder(tokens().bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize("mask", [None, LATER], ids=["whole", "causal"])
@pytest.mark.parametrize("is_eval", [True, False])
def test_mha_with_the_old_weights_is_the_old_model(mask, is_eval: bool) -> None:
    original = redrawn(torch_encoder()).double().train(not is_eval)
    encoder = copy.deepcopy(original)
    replace_attention(encoder, "mha")
    for layer, old in zip(encoder.layers, original.layers, strict=True):
        attention = layer.self_attn.attention
        attention.qkv.load_state_dict(
            {"weight": old.self_attn.in_proj_weight, "bias": old.self_attn.in_proj_bias}
        )
        attention.out.load_state_dict(old.self_attn.out_proj.state_dict())
    x = tokens().double()
    padding = torch.zeros(PADDED.shape, dtype=torch.float64).masked_fill(PADDED, -torch.inf)
    with torch.no_grad():
        mask = None if mask is None else mask.double()
        expected = original(x, mask=mask, src_key_padding_mask=padding)
        found = encoder(x, mask=mask, src_key_padding_mask=padding)
    assert (found - expected)[~PADDED].abs().max() < 1e-12


def test_the_original_takes_the_fast_path_that_the_swap_turns_off(monkeypatch) -> None:
    calls: list[int] = []
    fast = torch._transformer_encoder_layer_fwd

    def counted(*arguments: object) -> torch.Tensor:
        calls.append(1)
        return fast(*arguments)

    monkeypatch.setattr(torch, "_transformer_encoder_layer_fwd", counted)
    encoder = torch_encoder().eval()
    with torch.no_grad():
        encoder(tokens(), src_key_padding_mask=PADDED)
        assert len(calls) == LAYERS
        assert encoder.use_nested_tensor
        replace_attention(encoder, "mha")
        encoder(tokens(), src_key_padding_mask=PADDED)
        encoder(tokens())
    assert len(calls) == LAYERS
    assert not encoder.use_nested_tensor


def test_a_shared_generator_is_registered_once_by_the_first() -> None:
    encoder = replaced("damcha")
    owners = [name for name, _ in encoder.named_modules() if name.endswith(".shared")]
    assert owners == ["layers.0.self_attn.shared"]
    generators = {id(layer.self_attn.attention.generator) for layer in encoder.layers}
    assert generators == {id(encoder.layers[0].self_attn.shared)}
    unshared = replaced("damcha-unshared")
    generators = {id(layer.self_attn.attention.generator) for layer in unshared.layers}
    assert len(generators) == LAYERS


def test_differential_layers_know_their_place() -> None:
    starts = [layer.self_attn.attention.lambda_init for layer in replaced("differential").layers]
    assert starts == sorted(set(starts))
    assert starts[0] == pytest.approx(0.2)


def test_elliptical_layers_read_the_values_of_the_one_before() -> None:
    encoder, x = redrawn(replaced("elliptical")).eval(), tokens()
    alone = redrawn(replaced("elliptical")).eval()
    for layer in alone.layers:
        layer.self_attn.chain = None
    with torch.no_grad():
        assert not torch.allclose(encoder(x), alone(x))
    assert encoder.layers[0].self_attn.chain.carry is None  # nothing stays alive after a pass


def test_a_vision_transformer_of_torchvision_has_such_attentions_too() -> None:
    from torchvision.models import VisionTransformer

    vit = VisionTransformer(8, 2, num_layers=2, num_heads=4, hidden_dim=WIDTH, mlp_dim=32)
    names = [f"encoder.layers.encoder_layer_{number}.self_attention" for number in range(2)]
    assert replace_attention(vit, "damcha", options={"mlp_hidden": (5,)}) == names
    vit(torch.randn(2, 3, 8, 8)).sum().backward()
