"""What each argument of TransformerPC builds, and what it refuses."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from damcha_core import TransformerPC
from damcha_core.errors import ShapeError, UsageError

SIZES = (12, 3, 20, 2)


def shapes(model: nn.Module) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        ({}, "damcha"),
        ({"use_M": False}, "mha"),
        ({"use_M": False, "use_mlp": False, "share_mlp": False}, "mha"),
        ({"use_mlp": False}, "damcha-static"),
        ({"share_mlp": False}, "damcha-unshared"),
        ({"use_mlp": False, "share_mlp": False}, "damcha-static-unshared"),
    ],
)
def test_the_published_flags_are_rows_of_the_catalogue(flags, name, redraw) -> None:
    by_flags, by_name = TransformerPC(*SIZES, **flags), TransformerPC(*SIZES, attention=name)
    assert shapes(by_flags) == shapes(by_name)
    redraw(by_flags, seed=1)
    by_name.load_state_dict(by_flags.state_dict())
    x = torch.randn(2, 5, 12)
    assert torch.equal(by_flags(x), by_name(x))


@pytest.mark.parametrize(
    "flags", [{"use_M": False}, {"use_mlp": False}, {"share_mlp": False}], ids=str
)
@pytest.mark.parametrize("name", ["mha", "damcha", "damcha-static"])
def test_a_name_beside_a_published_flag_is_refused(name, flags) -> None:
    with pytest.raises(ValueError, match=f'attention="{name}".*use_M, use_mlp and share_mlp'):
        TransformerPC(*SIZES, attention=name, **flags)


@pytest.mark.parametrize("name", [None, "damcha", "damcha-psd", "damcha-unshared"])
def test_mlp_hidden_sets_the_generator_however_it_is_named(name) -> None:
    model = TransformerPC(*SIZES, mlp_hidden=(5, 7), attention=name)
    widths = {t.shape[0] for n, t in model.named_parameters() if "body" in n and "weight" in n}
    assert widths == {5, 7}


def test_an_option_beats_mlp_hidden_and_mha_has_no_use_for_it() -> None:
    model = TransformerPC(*SIZES, mlp_hidden=(5, 7), attention_options={"mlp_hidden": (6,)})
    assert model.shared.last_weight.shape[1] == 6
    assert shapes(TransformerPC(*SIZES, mlp_hidden=(5, 7), attention="mha")) == shapes(
        TransformerPC(*SIZES, use_M=False)
    )


@pytest.mark.parametrize("flags", [{}, {"use_mlp": False}], ids=["adaptive", "static"])
def test_a_shared_generator_is_once_in_the_state_dict(flags) -> None:
    names = list(TransformerPC(*SIZES, **flags).state_dict())
    owned = [n for n in names if n.rpartition(".")[2] in ("static", "last_weight")]
    assert len(owned) == 1
    assert owned[0].startswith("shared.")
    unshared = list(TransformerPC(*SIZES, share_mlp=False, **flags).state_dict())
    assert sum(n.rpartition(".")[2] in ("static", "last_weight") for n in unshared) == 2


def test_a_name_that_is_not_in_the_catalogue_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="damcha"):
        TransformerPC(*SIZES, attention="damhca")


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(ShapeError, match="n_heads 5 does not divide d_model 12"):
        TransformerPC(12, 5, 20, 2)


@pytest.mark.parametrize("shape", [(2, 5), (2, 5, 11), (1, 2, 5, 12)])
def test_tokens_of_another_shape_are_refused(shape) -> None:
    with pytest.raises(ShapeError, match=r"expected \[batch, tokens, 12\]"):
        TransformerPC(*SIZES)(torch.zeros(shape))


@pytest.mark.parametrize("is_causal", [True, False])
def test_masked_tokens_move_no_real_output(is_causal, redraw) -> None:
    model = redraw(TransformerPC(*SIZES, mlp_hidden=(5, 7), is_causal=is_causal))
    x = torch.randn(2, 6, 12)
    mask = torch.tensor([[True, True, False, True, False, True], [True] * 4 + [False] * 2])
    other = torch.where(mask[..., None], x, torch.randn_like(x))
    assert torch.equal(model(x, key_mask=mask)[mask], model(other, key_mask=mask)[mask])
    with pytest.raises(TypeError, match="bool"):
        model(x, key_mask=mask.float())


def test_dropout_acts_in_training_alone() -> None:
    model = TransformerPC(*SIZES, dropout=0.5)
    x = torch.randn(1, 4, 12)
    assert not torch.equal(model(x), model(x))
    model.eval()
    assert torch.equal(model(x), model(x))
