"""Multiply-adds that torch itself counts while a piece of code runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode, flop_registry, sdpa_flop_count

FUSED_ON_CPU = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


def fused_flops(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> int:
    """Operations of fused attention on the CPU, which torch's own table leaves out."""
    return sdpa_flop_count(query, key, value)


def counted_multiply_adds(run: Callable[[], object]) -> int:
    """Half the operations of the matrix products that run, forward alone.

    Args:
        run: the code; pointwise work counts nothing.

    Returns:
        Multiply-adds.
    """
    missing = {FUSED_ON_CPU: fused_flops} if FUSED_ON_CPU not in flop_registry else {}
    with torch.no_grad(), FlopCounterMode(display=False, custom_mapping=missing) as counter:
        run()
    flops = counter.get_total_flops()
    assert flops % 2 == 0
    return flops // 2
