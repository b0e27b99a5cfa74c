"""What one layer of a stack hands to the next beside the tokens.

Shapes: B batch, H heads, N tokens, K head width.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass
class Carry:
    """Made anew for every pass through a stack, and for every step of cached decoding.

    A layer that sets `uses_carry` reads what the layer before it wrote and then writes its own.

    Attributes:
        values_BHNK: value heads of the layer before, for the tokens of this pass (of this step,
            when there is a cache); None in the first layer.
    """

    values_BHNK: Tensor | None = None  # noqa: N815
