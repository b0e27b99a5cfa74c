"""Floating-point operations: counted while code runs, and by the formulas of the catalogue.

One multiply-add is two operations. Both figures are of products of matrices alone. Softmax, norms,
activations, sums (`cumsum` for prefix means) and elementwise products count nothing, neither here
nor in torch's counter; in the catalogue these are the diagonal metric of `damcha-diagonal` and of
`elliptical`, the feature weights of `collaborative`, the gates of `gated`, and the two dot products
a layer of `differential` that make its lambda. Each is at most a few operations a number that a
counted product has made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.flop_counter import (
    FlopCounterMode,
    flop_registry,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

from damcha_core.catalog.stack_size import Stack
from damcha_core.config.model_size import model_multiply_adds
from damcha_core.config.schema import RunConfig


@dataclass(frozen=True)
class ModelOperations:
    """Operations that a model needs by its formulas, whatever a kernel does.

    Attributes:
        forward: of one forward pass.
        backward: of one backward pass: each product of the forward pass has two in it, one for
            either factor. What a kernel computes a second time to save memory is not counted, so
            counted operations may be more: see `counted_operations`.
    """

    forward: int
    backward: int

    @property
    def total(self) -> int:
        """Of a forward and a backward pass: three times the forward pass."""
        return self.forward + self.backward


def model_operations(
    model: RunConfig | Stack,
    length: int,
    *,
    batch_size: int = 1,
    is_causal: bool | None = None,
    channels: int = 0,
    n_classes: int = 0,
    vocab_size: int = 0,
) -> ModelOperations:
    """Operations by the formulas of the catalogue, for sequences without padding.

    A causal layer is charged for all pairs of tokens, as torch's counter does, because a kernel
    need not skip any; so mha has one figure for both. A causal damcha generates a metric for every
    token (or for every refresh) and one that is not causal a single one: those differ.

    Args:
        model: settings of a run, for its whole model, or a stack alone.
        length: number of tokens N of a sequence, at least 1.
        batch_size: number of sequences, at least 1.
        is_causal: whether tokens see only earlier ones. None: as the settings say; a stack does
            not say, and has to be told.
        channels: colour channels of the pictures, where the run has pictures.
        n_classes: number of classes, where the run classifies.
        vocab_size: number of tokens of the vocabulary, where the run has texts.

    Raises:
        ValueError: a stack without is_causal.
        UsageError: the attention of the settings is a control.
    """
    if isinstance(model, Stack):
        if is_causal is None:
            raise ValueError("a stack does not say whether it is causal: give is_causal")
        multiply_adds = model.multiply_adds(length, is_causal=is_causal)
    else:
        if is_causal is not None and is_causal != model.model.causal:
            changed = model.model.model_copy(update={"causal": is_causal})
            model = model.model_copy(update={"model": changed})
        multiply_adds = model_multiply_adds(
            model,
            channels=channels,
            n_classes=n_classes,
            vocab_size=vocab_size,
            n_tokens=length,
        )
    forward = 2 * batch_size * multiply_adds
    return ModelOperations(forward=forward, backward=2 * forward)


def counted_operations(run: Callable[[], object]) -> int:
    """Operations of the products of matrices that torch runs while the code does.

    Everything is counted that reaches a kernel: forward, backward (those of our own
    `GeneratedMatmul` too), and what is computed a second time. A backward pass therefore counts
    other than twice the forward pass, by exactly
    - one product more of queries with keys a fused attention, which keeps no scores,
    - the last product of the generator once more in a causal damcha whose metrics are too large to
      be kept (KEPT_BYTES), and
    - one product of the metrics with tokens less in a causal damcha, whose gradients of metrics are
      outer products of single rows and run as pointwise multiplications.

    Args:
        run: the code, run once; with gradients if it makes them.

    Returns:
        Operations, two a multiply-add; those that the module's docstring names count nothing.
    """
    with FlopCounterMode(display=False, custom_mapping=missing_formulas()) as counter:
        run()
    return int(counter.get_total_flops())


def missing_formulas() -> dict[Any, Callable[..., int]]:
    """Formulas for products that this version of torch would count as nothing.

    Fused attention on the CPU and on Apple's devices, products that add in place, and products
    with a vector. Those that torch counts itself are left to it.
    """
    formulas: dict[str, Callable[..., int]] = {
        "_scaled_dot_product_flash_attention_for_cpu": fused_forward,
        "_scaled_dot_product_flash_attention_for_cpu_backward": fused_backward,
        "_scaled_dot_product_attention_math_for_mps": fused_forward,
        "addmm_": added_product,
        "_addmm_activation": added_product,
        "baddbmm_": added_product,
        "addbmm": added_product,
        "addbmm_": added_product,
        "mv": product,
        "addmv": added_product,
        "addmv_": added_product,
        "dot": product,
        "vdot": product,
    }
    packets = {getattr(torch.ops.aten, name, None): count for name, count in formulas.items()}
    return {
        packet: count
        for packet, count in packets.items()
        if packet is not None and packet not in flop_registry
    }


def fused_forward(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> int:
    """Scores and weighted sums of a fused attention, from the shapes of its arguments."""
    return int(sdpa_flop_count(query, key, value))


def fused_backward(
    grad_out: Any, query: Any, key: Any, value: Any, *args: Any, **kwargs: Any
) -> int:
    """Five products: the scores again, and a pair for each product of the forward pass."""
    return int(sdpa_backward_flop_count(grad_out, query, key, value))


def product(left: Any, right: Any, *args: Any, **kwargs: Any) -> int:
    """A product (*, M, K) (*, K, N) from the shapes; a vector (K) stands for one row or column."""
    rows = 1
    for size in left[:-1]:
        rows *= size
    columns = right[-1] if len(right) > 1 else 1
    return int(2 * rows * left[-1] * columns)


def added_product(total: Any, left: Any, right: Any, *args: Any, **kwargs: Any) -> int:
    """A product that is added to something, which counts nothing."""
    return product(left, right)
