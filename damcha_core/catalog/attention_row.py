"""What the catalogue says about one attention layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

# (d_model, n_heads, n_layers, options) -> attention parameters of the whole stack
ParameterCount = Callable[[int, int, int, Mapping[str, object]], int]


class MultiplyAdds(Protocol):
    """Forward multiply-adds of the attentions of a whole stack, for one sequence.

    The products of matrices are counted, as torch's FlopCounterMode counts them at two operations
    each; softmax, norms and other pointwise work count nothing. A causal layer is charged for all
    pairs of tokens, because a kernel need not skip any.
    """

    def __call__(
        self,
        d_model: int,
        n_heads: int,
        n_layers: int,
        options: Mapping[str, object],
        *,
        n_tokens: int,
        is_causal: bool,
    ) -> int: ...


@dataclass(frozen=True, kw_only=True)
class AttentionRow:
    """One attention layer, or one preset of it, that a run file can name.

    Args:
        name: the value of `attention.name`.
        summary: one line for lists and for the documentation.
        builder: dotted path of the function that builds a stack of layers.
        reference: dotted path of the slow float64 function that defines the truth.
        options: dotted path of the class with the layer's own options; None: it has none.
        source: citation of where the layer was published.
        licence: licence of the published code, and what was taken from it.
        causal: whether it can be used without looking ahead.
        cacheable: whether decoding can keep a state instead of starting over.
        formula: the mathematics, as text.
        parameters: exact number of attention parameters of a stack. Options that are not given
            have their defaults; those of the preset are applied.
        multiply_adds: forward multiply-adds of a stack for one sequence of real tokens, with
            options as for `parameters`.
        preset: option values that the row fixes.
        head_multiple: the number of heads has to be a multiple of this.
    """

    name: str
    summary: str
    builder: str
    reference: str
    options: str | None
    source: str
    licence: str
    causal: bool
    cacheable: bool
    formula: str
    parameters: ParameterCount
    multiply_adds: MultiplyAdds
    preset: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    head_multiple: int = 1
