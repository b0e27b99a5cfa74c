"""Parameters of a model by its parts, each counted once however many parts use it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torch import nn

from damcha_core.attention.generator import MetricGenerator
from damcha_core.attention.layer import AttentionLayer
from damcha_core.models.block import FeedForward


@dataclass(frozen=True)
class ParameterCount:
    """Numbers in the parameters of a model.

    Attributes:
        total: all of them; attention, feed_forward, norms and other add up to it.
        attention: those of the attention layers and of what the layers use together, such as a
            generator that is shared.
        generator: those among `attention` that generate the metrics of damcha, or are them.
        feed_forward: those of the feed-forward networks of the blocks.
        norms: those of the norms outside of attention layers.
        other: the rest: embeddings, positions, heads, mask tokens. A head that is tied to an
            embedding is in it once.
    """

    total: int
    attention: int
    generator: int
    feed_forward: int
    norms: int
    other: int


def count_parameters(model: nn.Module) -> ParameterCount:
    """Count the parameters of a model, trained or not; buffers are none.

    A parameter that several modules hold is counted once: a shared generator, a tied head. One that
    an attention layer uses belongs to the attention, wherever it is registered.

    Args:
        model: any module; its attention layers are those of the catalogue.
    """
    attention = sizes(attention_parameters(model))
    feed_forward = sizes(own_parameters(model, FeedForward)) - attention
    norms = sizes(own_parameters(model, nn.LayerNorm)) - attention - feed_forward
    everything = sizes(model.parameters()) | attention
    generator = sizes(own_parameters(model, MetricGenerator, borrowed=True)) & attention
    return ParameterCount(
        total=numbers(everything),
        attention=numbers(attention),
        generator=numbers(generator),
        feed_forward=numbers(feed_forward),
        norms=numbers(norms),
        other=numbers(everything - attention - feed_forward - norms),
    )


def attention_parameters(model: nn.Module) -> Iterator[nn.Parameter]:
    """Parameters of the attention layers and of the modules that they borrow, with repetitions."""
    for layer in model.modules():
        if isinstance(layer, AttentionLayer):
            for module in (layer, *borrowed_modules(layer)):
                yield from module.parameters()


def borrowed_modules(layer: nn.Module) -> list[nn.Module]:
    """Modules that a layer uses without owning them: plain attributes, which torch lists not."""
    return [value for value in vars(layer).values() if isinstance(value, nn.Module)]


def own_parameters(
    model: nn.Module, kind: type[nn.Module], *, borrowed: bool = False
) -> Iterator[nn.Parameter]:
    """Parameters of all modules of a kind, with repetitions.

    Args:
        model: where they are.
        kind: class of the modules.
        borrowed: whether those count that a module uses without owning them.
    """
    for module in model.modules():
        for candidate in (module, *(borrowed_modules(module) if borrowed else ())):
            if isinstance(candidate, kind):
                yield from candidate.parameters()


# A parameter is compared by identity, as torch does; its size goes with it.
Sizes = frozenset[tuple[int, int]]


def sizes(parameters: Iterable[nn.Parameter]) -> Sizes:
    """Identity and number of elements of each parameter, once."""
    return frozenset((id(parameter), parameter.numel()) for parameter in parameters)


def numbers(of: Sizes) -> int:
    """Elements in all."""
    return sum(count for _, count in of)
