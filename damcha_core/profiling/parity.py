"""Whether a layer computes what its slow reference does, asked before its speed is shown.

Shapes: B batch, N tokens, D width, H heads, K head width.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from damcha_core.attention.build import build_attention
from damcha_core.attention.carry import Carry
from damcha_core.attention.layer import AttentionLayer
from damcha_core.catalog.attentions import attention_row
from damcha_core.catalog.loading import load

HEADS, HEAD_WIDTH = 3, 8
"""Size of a checked layer; the heads are doubled where they come in pairs. Fused kernels want head
widths that are multiples of 8."""
KEY_MASKS = (
    None,
    ((True, True, False, True, True, False, True), (False, False, True, True, True, True, True)),
)
"""A batch without padding, and one with padding before, between and behind the tokens."""
BATCH, TOKENS = 2, 7
TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-4}
SMALLEST_SCALE = 1e-3
"""A tensor whose entries are all below this share of the largest is compared at that share."""


@dataclass(frozen=True)
class Parity:
    """How far a layer is from its reference.

    Attributes:
        passed: whether neither error is above the tolerance, nor NaN.
        largest_output_error: largest difference of an output of a real token, as a share of the
            largest output.
        largest_gradient_error: the same of the gradients of the input and of each parameter, the
            worst of them, each as a share of the largest entry of its tensor.
        tolerance: what either error may be.
        worst_gradient: name of the tensor with that gradient.
    """

    passed: bool
    largest_output_error: float
    largest_gradient_error: float
    tolerance: float
    worst_gradient: str


def check_parity(
    attention: str,
    *,
    options: Mapping[str, Any] | None = None,
    d_model: int = 0,
    n_heads: int = 0,
    is_causal: bool = False,
    device: torch.device | str = "cpu",
    seed: int = 0,
    dtype: torch.dtype | None = None,
) -> Parity:
    """Compare outputs and all gradients of a layer with those of its slow reference.

    The reference works through one query at a time, so the check is one of a small layer: two
    sequences of seven tokens, with and without padding, at the size below unless another is given.
    Every parameter is drawn far from its initial value, at which a metric ignores its context. The
    reference computes in float64, on the CPU.

    Args:
        attention: a row of the attention catalogue.
        options: the row's own options, as the layer will be profiled with.
        d_model: width D of the tokens; 0: 8 a head.
        n_heads: number of heads H; 0: 3, or 6 where the layer takes its heads in pairs.
        is_causal: which of the two layers.
        device: where the layer computes.
        seed: of the parameters and of the tokens.
        dtype: number format of the layer, float64 with a tolerance of 1e-10 or float32 with 1e-4.
            None: float64 on the CPU, float32 elsewhere.

    Raises:
        UsageError: the name is not in the catalogue, or that of a control.
        ValueError: a size or an option is not valid.
    """
    row, device = attention_row(attention), torch.device(device)
    n_heads = n_heads or HEADS * row.head_multiple
    dtype = dtype or (torch.float64 if device.type == "cpu" else torch.float32)
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is said of the options is said of the profiled layer
        stack = build_attention(
            attention, d_model or HEAD_WIDTH * n_heads, n_heads, 2, options=options
        )
    own = nn.ModuleList([*stack.layers, *([stack.shared] if stack.shared else [])]).double()
    random = torch.Generator().manual_seed(seed)
    redraw(own, random)
    found = Comparison(own, own_copy(own, device, dtype), load(row.reference), is_causal)
    with exact_products():
        for mask in KEY_MASKS:
            found.add(None if mask is None else torch.tensor(mask), random)
    return found.parity(TOLERANCES[dtype])


@torch.no_grad()
def redraw(module: nn.Module, random: torch.Generator) -> None:
    """Set every parameter from a random draw that keeps the size of what passes through it."""
    for parameter in module.parameters():
        drawn = torch.randn(parameter.shape, generator=random, dtype=torch.float64)
        fan_in = parameter.shape[-1] if parameter.ndim > 1 else 4
        parameter.copy_(drawn * 0.9 / math.sqrt(fan_in))


def own_copy(module: nn.Module, device: torch.device, dtype: torch.dtype) -> nn.Module:
    """The same layers and weights elsewhere; a generator that they borrow goes with them."""
    return copy.deepcopy(module).to(device=device, dtype=dtype)


@contextmanager
def exact_products() -> Iterator[None]:
    """Products of float32 in float32, whatever the process is set to."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


class Comparison:
    """Adds up the largest errors over some batches.

    Args:
        slow: two layers of a stack in float64 on the CPU, and what they share.
        fast: the same where and how the layer is to compute.
        reference: the slow function.
        is_causal: whether tokens see only earlier ones.
    """

    def __init__(self, slow: nn.Module, fast: nn.Module, reference: Any, is_causal: bool) -> None:
        self.slow, self.fast = slow, fast
        self.reference, self.is_causal = reference, is_causal
        self.output_error = self.gradient_error = 0.0
        self.worst_gradient = ""

    def add(self, key_mask: Tensor | None, random: torch.Generator) -> None:
        """Compare the second layer on a random batch; the first gives it its carry."""
        shape = BATCH, TOKENS, second_layer(self.slow).d_model
        first_BND, x_BND, grad_BND = (
            torch.randn(shape, generator=random, dtype=torch.float64) for _ in range(3)
        )
        if key_mask is not None:  # the row of a masked query carries no meaning
            grad_BND = grad_BND * key_mask.unsqueeze(-1)
        slow_out, slow_grads = self._pass(self.slow, first_BND, x_BND, grad_BND, key_mask, True)
        fast_out, fast_grads = self._pass(self.fast, first_BND, x_BND, grad_BND, key_mask, False)
        kept = torch.ones(shape[:2], dtype=torch.bool) if key_mask is None else key_mask
        error = largest_error(fast_out[kept], slow_out[kept])
        if is_worse(error, self.output_error):
            self.output_error = error
        largest = max(float(gradient.abs().max()) for gradient in slow_grads.values())
        for name, gradient in slow_grads.items():
            error = largest_error(fast_grads[name], gradient, SMALLEST_SCALE * largest)
            if is_worse(error, self.gradient_error):
                self.gradient_error, self.worst_gradient = error, name

    def _pass(
        self,
        own: nn.Module,
        first_BND: Tensor,
        x_BND: Tensor,
        grad_BND: Tensor,
        key_mask: Tensor | None,
        is_slow: bool,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Outputs and gradients of the second layer, in float64 on the CPU."""
        layer, own_parameter = second_layer(own), next(own.parameters())
        first_BND, x_BND, grad_BND = (
            t.detach().to(own_parameter) for t in (first_BND, x_BND, grad_BND)
        )
        mask = None if key_mask is None else key_mask.to(own_parameter.device)
        inputs = {"input": x_BND.requires_grad_(), **dict(own.named_parameters())}
        carry = Carry() if layer.uses_carry else None
        if carry is not None:
            with torch.no_grad():
                own.get_submodule("0")(
                    first_BND, key_mask=mask, is_causal=self.is_causal, carry=carry
                )
        if is_slow:
            given = () if carry is None else (carry.values_BHNK,)
            out_BND = self.reference(layer, x_BND, mask, self.is_causal, *given)
        else:
            out_BND = layer(x_BND, key_mask=mask, is_causal=self.is_causal, carry=carry)
        grads = torch.autograd.grad(
            (out_BND * grad_BND).sum(), list(inputs.values()), allow_unused=True
        )
        found = {
            name: (torch.zeros_like(tensor) if grad is None else grad).detach().double().cpu()
            for (name, tensor), grad in zip(inputs.items(), grads, strict=True)
        }
        return out_BND.detach().double().cpu(), found

    def parity(self, tolerance: float) -> Parity:
        """The result."""
        return Parity(
            passed=self.output_error <= tolerance and self.gradient_error <= tolerance,
            largest_output_error=self.output_error,
            largest_gradient_error=self.gradient_error,
            tolerance=tolerance,
            worst_gradient=self.worst_gradient,
        )


def second_layer(own: nn.Module) -> AttentionLayer:
    """The layer that is compared, of the list that holds it."""
    assert isinstance(own, nn.ModuleList)
    layer = own[1]
    assert isinstance(layer, AttentionLayer)
    return layer


def largest_error(found: Tensor, expected: Tensor, smallest_scale: float = 0.0) -> float:
    """Largest difference as a share of the largest entry expected; infinite for another shape.

    Args:
        found: what the layer gives.
        expected: what the reference gives.
        smallest_scale: what the difference is at least a share of.
    """
    if found.shape != expected.shape:
        return math.inf
    scale = max(float(expected.abs().max()), smallest_scale)
    difference = float((found - expected).abs().max())
    return difference / scale if scale else difference


def is_worse(error: float, other: float) -> bool:
    """Whether an error is larger than another; NaN is the worst, and stays."""
    return not math.isnan(other) and (math.isnan(error) or error > other)
