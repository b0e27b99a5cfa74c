"""Swaps the self-attentions of a model for a row of the catalogue."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from damcha_core.attention.build import build_attention
from damcha_core.attention.stack import AttentionStack
from damcha_core.catalog.attentions import attention_row
from damcha_core.errors import UsageError
from damcha_core.replacement.stand_in import Chain, Sizes, StandIn
from damcha_core.replacement.timm_attention import TimmStandIn
from damcha_core.replacement.torch_attention import TorchStandIn

KINDS: tuple[type[StandIn], ...] = (TorchStandIn, TimmStandIn)


@dataclass(frozen=True)
class Site:
    """An attention that is to be replaced.

    Attributes:
        name: its dotted name in the model.
        module: itself.
        kind: class of what will stand there.
        homes: the modules that hold it, each with the name that it has there.
        objection: why it cannot be replaced; empty: it can.
    """

    name: str
    module: nn.Module
    kind: type[StandIn]
    homes: tuple[tuple[nn.Module, str], ...]
    objection: str


def replace_attention(
    module: nn.Module,
    name: str,
    *,
    options: Mapping[str, Any] | None = None,
    skip: Collection[str] = (),
) -> list[str]:
    """Swap every self-attention inside a model for an attention of the catalogue.

    Found are nn.MultiheadAttention, in nn.TransformerEncoder and elsewhere, and the attention of
    timm's vision transformers. What one call finds becomes one stack: a generator that the row
    shares is made once, and registered in the first of them; layers that depend on their place, or
    on the layer before, are numbered in the order in which the model lists them. So a model of
    several towers takes one call a tower. The new weights are fresh, on the device and in the
    number format of the old ones; an optimiser has to be made afterwards.

    The calls and their shapes stay as they are, with three limits: there are no attention weights
    to return, a mask has to be causal or one of tokens (padding), and query, key and value have to
    be one tensor. Anything else is refused by name when it happens.

    Args:
        module: holds the attentions; it is changed in place.
        name: a row of the attention catalogue.
        options: the row's own options.
        skip: dotted names of attentions that stay as they are, such as cross-attentions.

    Returns:
        The dotted names of what was replaced, in order.

    Raises:
        UsageError: the name is that of a control or of nothing, there is nothing to replace, one of
            skip names no attention, an attention cannot be replaced, their sizes differ, or the row
            cannot have their number of heads. The model is as it was then.
        ValueError: an option is not valid.
        TypeError: the row has no such option.
    """
    row = attention_row(name)
    sites = chosen(sites_in(module), skip, module)
    sizes = common_sizes(sites)
    if sizes.n_heads % row.head_multiple:
        raise UsageError(
            f"attention {name} takes its heads {row.head_multiple} at a time; "
            f"{sites[0].name} has {sizes.n_heads}"
        )
    stack = build_attention(name, sizes.d_model, sizes.n_heads, len(sites), options=options)
    for site, stand_in in zip(sites, stand_ins(sites, stack), strict=True):
        for home, child in site.homes:
            setattr(home, child, stand_in)
    for encoder in module.modules():
        if isinstance(encoder, nn.TransformerEncoder) and holds_stand_in(encoder):
            # Nested tensors are for its fast path, which goes past the attention modules.
            encoder.use_nested_tensor = False
    return [site.name for site in sites]


def sites_in(module: nn.Module) -> list[Site]:
    """All attentions of a known kind inside a module, in its order."""
    homes: dict[nn.Module, list[tuple[nn.Module, str]]] = {}
    names: dict[nn.Module, str] = {}
    crossing: set[nn.Module] = set()
    for path, parent in module.named_modules():
        for child, found in parent._modules.items():
            if found is None or not any(kind.stands_for(found) for kind in KINDS):
                continue
            homes.setdefault(found, []).append((parent, child))
            names.setdefault(found, f"{path}.{child}" if path else child)
            if isinstance(parent, nn.TransformerDecoderLayer) and child == "multihead_attn":
                crossing.add(found)
    sites = []
    for found, places in homes.items():
        kind = next(kind for kind in KINDS if kind.stands_for(found))
        objection = (
            "it is the cross-attention of nn.TransformerDecoderLayer"
            if found in crossing
            else kind.objection(found)
        )
        sites.append(Site(names[found], found, kind, tuple(places), objection))
    return sites


def chosen(sites: Sequence[Site], skip: Collection[str], module: nn.Module) -> list[Site]:
    """The sites that are to be replaced.

    Raises:
        UsageError: there are none, a name in skip is unknown, or some cannot be replaced.
    """
    unknown = [name for name in skip if name not in {site.name for site in sites}]
    if unknown:
        known = ", ".join(site.name for site in sites) or "none"
        raise UsageError(f"skip names {', '.join(unknown)}; the attentions here are: {known}")
    wanted = [site for site in sites if site.name not in skip]
    if not wanted:
        raise UsageError(
            f"nothing to replace inside {type(module).__name__} (a module itself is replaced in "
            "what holds it): looked for " + " and ".join(kind.kind for kind in KINDS)
        )
    refused = [site for site in wanted if site.objection]
    if refused:
        reasons = "; ".join(f"{site.name}: {site.objection}" for site in refused)
        raise UsageError(
            f"cannot be replaced: {reasons}. To leave them as they are: "
            f"skip={[site.name for site in refused]}"
        )
    return wanted


def common_sizes(sites: Sequence[Site]) -> Sizes:
    """Width and heads that all sites have.

    Raises:
        UsageError: they differ.
    """
    groups: dict[tuple[int, int], list[str]] = {}
    for site in sites:
        sizes = site.kind.sizes(site.module)
        groups.setdefault((sizes.d_model, sizes.n_heads), []).append(site.name)
    if len(groups) > 1:
        listed = "; ".join(
            f"width {d_model} with {n_heads} heads: {', '.join(names)}"
            for (d_model, n_heads), names in groups.items()
        )
        raise UsageError(
            f"one call makes one stack of equal layers, and these differ: {listed}. Replace them "
            "one group at a time, the others in skip"
        )
    return sites[0].kind.sizes(sites[0].module)


def stand_ins(sites: Sequence[Site], stack: AttentionStack) -> list[StandIn]:
    """What will stand in each place."""
    uses_carry = any(layer.uses_carry for layer in stack.layers)
    chain = Chain([site.name for site in sites]) if uses_carry else None
    made = []
    for place, (site, layer) in enumerate(zip(sites, stack.layers, strict=True)):
        layer.dropout = site.kind.sizes(site.module).dropout
        stand_in = site.kind(
            layer,
            name=site.name,
            place=place,
            chain=chain,
            shared=stack.shared if place == 0 else None,
        )
        like = next(site.module.parameters())
        stand_in.to(device=like.device, dtype=like.dtype).train(site.module.training)
        stand_in.adopt(site.module)
        made.append(stand_in)
    return made


def holds_stand_in(module: nn.Module) -> bool:
    """Whether something was replaced inside a module."""
    return any(isinstance(part, StandIn) for part in module.modules())
