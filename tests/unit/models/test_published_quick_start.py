"""The published quick start: its arguments, its shapes, and that it cannot look ahead."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from damcha_core import TransformerPC
from damcha_core.attention import DamchaAttention
from damcha_core.attention.pooling import token_mean

QUICK_START = (128, 8, 256, 4)
DRAWS = pytest.mark.parametrize("std", [0.5, None], ids=["std 0.5", "by fan-in"])


def test_the_quick_start_keeps_the_shape_and_depends_on_its_input() -> None:
    model = TransformerPC(128, 8, 256, 4)
    x, other = torch.randn(2, 2, 16, 128)
    assert model(x).shape == (2, 16, 128)
    assert model(x).isfinite().all()
    assert not torch.equal(model(x), model(other))


def test_all_eight_published_arguments_go_by_position() -> None:
    model = TransformerPC(128, 8, 256, 4, True, True, True, (256, 512))
    twin = TransformerPC(128, 8, 256, 4)
    assert {n: t.shape for n, t in model.state_dict().items()} == {
        n: t.shape for n, t in twin.state_dict().items()
    }


def leaks(model: nn.Module, x: Tensor) -> list[int]:
    """Tokens t whose outputs up to t move by a bit when every later token is another one.

    Also checks that the outputs after t move: a model that ignores its input would pass.
    """
    found = []
    with torch.no_grad():
        out = model(x)
        for t in range(x.shape[1]):
            other = torch.cat([x[:, : t + 1], torch.randn_like(x[:, t + 1 :])], dim=1)
            moved = model(other)
            if not torch.equal(moved[:, : t + 1], out[:, : t + 1]):
                found.append(t)
            assert (moved != out).any(-1)[:, t + 1 :].all()
    return found


@DRAWS
def test_later_tokens_move_no_earlier_output(std, redraw) -> None:
    model = redraw(TransformerPC(*QUICK_START), std=std)
    assert leaks(model, torch.randn(2, 16, 128)) == []


@DRAWS
@pytest.mark.parametrize("name", ["mha", "damcha-unshared", "damcha-psd", "damcha-static"])
def test_nor_with_another_attention(name, std, redraw) -> None:
    model = redraw(TransformerPC(24, 3, 36, 2, attention=name, mlp_hidden=(7, 11)), std=std)
    assert leaks(model, torch.randn(2, 9, 24)) == []


@DRAWS
def test_a_twin_that_pools_the_whole_sequence_is_found(std, redraw, monkeypatch) -> None:
    def whole_pool(_layer, x_BND, key_mask, _is_causal):
        return token_mean(x_BND, key_mask).unsqueeze(1).expand_as(x_BND)

    model = redraw(TransformerPC(*QUICK_START), std=std)
    monkeypatch.setattr(DamchaAttention, "context", whole_pool)
    assert len(leaks(model, torch.randn(2, 16, 128))) > 10


def test_a_stack_that_is_not_causal_sees_everything(redraw) -> None:
    model = redraw(TransformerPC(24, 3, 36, 1, mlp_hidden=(7, 11), is_causal=False))
    x = torch.randn(1, 6, 24)
    other = torch.cat([x[:, :5], torch.randn(1, 1, 24)], dim=1)
    assert (model(x) != model(other)).any(-1).all()
