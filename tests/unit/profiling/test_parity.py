"""The gate in front of every speed: true layers pass it, broken ones do not."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from damcha_core.attention import damcha, layer, mha
from damcha_core.attention.elliptical import EllipticalAttention
from damcha_core.catalog.attentions import attention_rows
from damcha_core.errors import UsageError
from damcha_core.profiling.parity import check_parity

# The function of the same name hides the module from a plain import.
generated_matmul = importlib.import_module("damcha_core.attention.generated_matmul")
BOTH = pytest.mark.parametrize("is_causal", [False, True])
NAMES = [row.name for row in attention_rows()]
SMALL = {"mlp_hidden": (11, 13)}


def options_of(name: str) -> dict[str, Any]:
    return dict(SMALL) if name.startswith("damcha") else {}


@BOTH
@pytest.mark.parametrize("name", NAMES)
def test_every_row_passes(name: str, is_causal: bool) -> None:
    found = check_parity(name, options=options_of(name), is_causal=is_causal, seed=3)
    assert found.passed
    assert found.tolerance == 1e-10
    assert 0 < found.largest_output_error < 1e-12
    assert 0 < found.largest_gradient_error < 1e-12
    assert found.worst_gradient


@BOTH
@pytest.mark.parametrize("name", NAMES)
def test_every_row_passes_in_the_number_format_of_a_gpu(name: str, is_causal: bool) -> None:
    """float32 here as well, so that its tolerance is one that true layers meet."""
    found = check_parity(name, options=options_of(name), is_causal=is_causal, dtype=torch.float32)
    assert found.passed
    assert found.tolerance == 1e-4
    assert 1e-9 < found.largest_gradient_error < 5e-5


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("damcha", {"output": "matrix"}),
        ("damcha", {"refresh": 2}),
        ("damcha", {"refresh": "geometric", "refresh_ratio": 2.5}),
        ("damcha", {"init": "random", "mlp_hidden": (256, 512)}),
        ("damcha-psd", {"rank": 2}),
        ("damcha-low-rank", {"rank": 9}),
        ("damcha-static", {"structure": "symmetric"}),
        ("collaborative", {"shared_dim": 11}),
        ("gated", {"gate": "elementwise"}),
    ],
)
def test_options_pass(name: str, options: dict[str, Any]) -> None:
    """The options of the profiled layer, also those that it would be warned about."""
    assert check_parity(name, options=options, is_causal=True).passed


@pytest.mark.parametrize(("d_model", "n_heads"), [(14, 2), (15, 5), (16, 1), (0, 5)])
def test_another_size(d_model: int, n_heads: int) -> None:
    found = check_parity("damcha", options=SMALL, d_model=d_model, n_heads=n_heads, is_causal=True)
    assert found.passed


def scaled(function: Callable[..., Tensor], factor: float = 1.0001) -> Callable[..., Tensor]:
    return lambda *args, **kwargs: function(*args, **kwargs) * factor


def doubled_gradient(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The right output with twice its gradient."""

    def double(*args: Any, **kwargs: Any) -> Tensor:
        out = function(*args, **kwargs)
        return 2 * out - out.detach()

    return double


def test_a_wrong_output_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mha, "masked_attention", scaled(mha.masked_attention))
    found = check_parity("mha")
    assert not found.passed
    assert found.largest_output_error > 1e-6
    assert check_parity("damcha", options=SMALL).passed  # which does not use that


@BOTH
def test_a_wrong_gradient_behind_a_right_output_fails(
    monkeypatch: pytest.MonkeyPatch, is_causal: bool
) -> None:
    monkeypatch.setattr(damcha, "masked_attention", doubled_gradient(damcha.masked_attention))
    found = check_parity("damcha", options=SMALL, is_causal=is_causal)
    assert not found.passed
    assert found.largest_output_error <= found.tolerance
    assert found.largest_gradient_error > 0.1


def test_a_wrong_gradient_of_one_parameter_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    true = generated_matmul.add_product

    def half(total: Tensor, left: Tensor, right: Tensor) -> None:
        true(total, left / 2, right)

    monkeypatch.setattr(generated_matmul, "add_product", half)
    found = check_parity("damcha", options=SMALL, is_causal=True)
    assert not found.passed
    assert found.worst_gradient == "2.last_weight"
    assert found.largest_gradient_error == pytest.approx(0.5)
    assert found.largest_output_error <= found.tolerance
    assert check_parity("damcha", options=SMALL, is_causal=False).passed


def test_looking_ahead_in_the_pool_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start a metric ignores its context: the check draws the weights far from it."""

    def whole(x_BND: Tensor, key_mask: Tensor | None = None) -> Tensor:
        return damcha.token_mean(x_BND, key_mask).unsqueeze(1).expand_as(x_BND)

    monkeypatch.setattr(damcha, "prefix_mean", whole)
    assert not check_parity("damcha", options=SMALL, is_causal=True).passed


def test_padding_in_the_pool_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    true = damcha.token_mean
    monkeypatch.setattr(damcha, "token_mean", lambda x_BND, key_mask=None: true(x_BND))
    assert not check_parity("damcha", options=SMALL).passed


def test_padding_that_is_seen_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    true = mha.masked_attention
    monkeypatch.setattr(
        mha, "masked_attention", lambda *args, key_mask=None, **rest: true(*args, **rest)
    )
    assert not check_parity("mha").passed


def test_a_layer_that_ignores_the_layer_before_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EllipticalAttention, "metric", lambda self, c: torch.ones(()))
    assert not check_parity("elliptical").passed


def test_nan_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mha, "masked_attention", scaled(mha.masked_attention, math.nan))
    found = check_parity("mha")
    assert not found.passed
    assert math.isnan(found.largest_output_error)
    assert math.isnan(found.largest_gradient_error)


def test_an_output_of_another_shape_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    true = layer.AttentionLayer.forward
    monkeypatch.setattr(
        layer.AttentionLayer, "forward", lambda self, x, **rest: true(self, x, **rest)[..., :1]
    )
    found = check_parity("mha")
    assert not found.passed
    assert found.largest_output_error == math.inf


def test_one_seed_gives_one_result_and_leaves_the_random_state_alone() -> None:
    torch.manual_seed(5)
    first = check_parity("damcha", options=SMALL, seed=1)
    second = check_parity("damcha", options=SMALL, seed=1)
    drawn = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(3))
    assert first == second
    assert check_parity("damcha", options=SMALL, seed=2) != first


def test_a_control_and_an_unknown_name_are_refused() -> None:
    with pytest.raises(UsageError, match="control, not a layer"):
        check_parity("mha-matched")
    with pytest.raises(UsageError, match="nothing"):
        check_parity("nothing")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@BOTH
@pytest.mark.parametrize("name", NAMES)
def test_every_row_passes_on_a_gpu(name: str, is_causal: bool) -> None:
    found = check_parity(name, options=options_of(name), is_causal=is_causal, device="cuda")
    assert found.passed
    assert found.tolerance == 1e-4
