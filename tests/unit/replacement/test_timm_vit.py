"""Every row in a vision transformer of timm."""

from __future__ import annotations

import copy
import subprocess
import sys

import pytest
import torch
from foreign_models import LAYERS, WIDTH, losses_of_training, redrawn, small, timm_vit
from safetensors.torch import load_file, save_file
from torch import nn

from damcha_core import replace_attention
from damcha_core.errors import UsageError

SITES = [f"blocks.{number}.attn" for number in range(LAYERS)]


def replaced(name: str, **settings: object) -> nn.Module:
    vit = timm_vit(**settings)
    assert replace_attention(vit, name, options=small(name)) == SITES
    return vit


def pictures() -> torch.Tensor:
    return torch.randn(4, 3, 8, 8)


def test_it_learns_and_evaluates(name: str) -> None:
    vit, x, labels = replaced(name), pictures(), torch.arange(4)
    losses = losses_of_training(vit, lambda: nn.functional.cross_entropy(vit(x), labels))
    assert losses[-1] < 0.8 * losses[0]
    with torch.no_grad():
        trained, evaluated = vit.train()(x), vit.eval()(x)
        assert torch.equal(trained, evaluated)
        vit.blocks[1].attn.attention.out.weight.add_(0.5)
        assert not torch.equal(vit(x), evaluated)


def test_the_state_survives_a_file_and_a_copy(name: str, tmp_path) -> None:
    vit, x = redrawn(replaced(name)).eval(), pictures()
    save_file(vit.state_dict(), tmp_path / "weights.safetensors")
    other = redrawn(replaced(name), seed=1).eval()
    with torch.no_grad():
        assert not torch.equal(other(x), vit(x))
        other.load_state_dict(load_file(tmp_path / "weights.safetensors"))
        assert torch.equal(other(x), vit(x))
        assert torch.equal(copy.deepcopy(vit)(x), vit(x))


def test_mha_with_the_old_weights_is_the_old_model() -> None:
    original = redrawn(timm_vit(qkv_bias=True)).double().eval()
    vit = copy.deepcopy(original)
    replace_attention(vit, "mha")
    for block, old in zip(vit.blocks, original.blocks, strict=True):
        block.attn.attention.qkv.load_state_dict(old.attn.qkv.state_dict())
        block.attn.attention.out.load_state_dict(old.attn.proj.state_dict())
    x = pictures().double()
    with torch.no_grad():
        assert (vit(x) - original(x)).abs().max() < 1e-12


def test_masks_mean_what_they_mean_in_timm() -> None:
    original = redrawn(timm_vit(qkv_bias=True)).blocks[0].attn.double().eval()
    holder = nn.ModuleList([copy.deepcopy(original)])
    replace_attention(holder, "mha")
    (stand_in,) = holder
    stand_in.attention.qkv.load_state_dict(original.qkv.state_dict())
    stand_in.attention.out.load_state_dict(original.proj.state_dict())
    x = torch.randn(2, 5, WIDTH, dtype=torch.float64)
    real = torch.tensor([[True] * 5, [True, True, True, False, False]])
    later = torch.zeros(5, 5, dtype=torch.float64).masked_fill(
        torch.ones(5, 5).triu(1).bool(), -torch.inf
    )
    cases = [
        {"attn_mask": real[:, None, None, :]},
        {"attn_mask": later},
        {"attn_mask": later[None, None].expand(2, 4, 5, 5)},
        {"is_causal": True},
        {"attn_mask": real[:, None, None, :] & (later == 0)},
    ]
    with torch.no_grad():
        for masks in cases:
            difference = stand_in(x, **masks) - original(x, **masks)
            assert difference[real].abs().max() < 1e-12


def test_both_dropouts_stay() -> None:
    vit = replaced("mha", attn_drop_rate=0.25, proj_drop_rate=0.5)
    assert vit.blocks[2].attn.attention.dropout == 0.25
    assert vit.blocks[2].attn.proj_drop.p == 0.5
    vit.train()
    x = pictures()
    assert not torch.equal(vit(x), vit(x))
    vit.eval()
    assert torch.equal(vit(x), vit(x))


def test_an_attention_that_changes_the_width_is_refused() -> None:
    from timm.layers.attention import Attention

    holder = nn.ModuleList([Attention(24, 4, dim_out=12)])
    with pytest.raises(UsageError, match="0: it makes tokens of width 12 from tokens of width 24"):
        replace_attention(holder, "mha")
    holder = nn.ModuleList([Attention(24, 5, attn_head_dim=4)])
    with pytest.raises(UsageError, match="its 5 heads do not divide its width 24"):
        replace_attention(holder, "mha")


def test_attentions_that_timm_has_elsewhere_are_not_mistaken_for_it() -> None:
    class Attention(nn.Module):
        """Of another library."""

    with pytest.raises(UsageError, match="nothing to replace"):
        replace_attention(nn.ModuleList([Attention()]), "mha")


def test_timm_itself_is_not_imported() -> None:
    program = (
        "import sys, torch; from damcha_core import replace_attention\n"
        "encoder = torch.nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)\n"
        "assert replace_attention(encoder, 'damcha') == ['self_attn']\n"
        "assert 'timm' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
