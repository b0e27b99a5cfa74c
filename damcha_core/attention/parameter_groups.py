"""Parameter groups for the optimiser, with the factors that let two forms train alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn


@dataclass(frozen=True)
class Factors:
    """How one parameter differs from the others for the optimiser.

    Attributes:
        lr: the learning rate of the parameter is this times that of the step.
        decay: its weight decay is this times the common one.
        norm: its squared gradient norm enters the total norm this many times.
    """

    lr: float = 1.0
    decay: float = 1.0
    norm: float = 1.0


def parameter_groups(module: nn.Module, *, lr: float, weight_decay: float) -> list[dict[str, Any]]:
    """Groups for torch.optim.AdamW, one for each set of factors that occurs.

    A module states the factors of its parameters, or of those of a module within it, in
    `parameter_factors()`, a mapping from name to Factors, and those of its own that are not to be
    decayed in `undecayed_parameters()`, names.
    Parameters with fewer than two axes (biases, norms) are never decayed. A parameter that occurs
    twice is taken once; one that needs no gradient is left out.

    Args:
        module: the model.
        lr: learning rate of a parameter with factor 1, above 0.
        weight_decay: weight decay of a parameter with factor 1, at least 0.

    Returns:
        Dictionaries with params, names (in the same order), lr, weight_decay, lr_factor and
        norm_multiplicity, in the order in which the module lists its parameters.
    """
    groups: dict[tuple[float, float, float], dict[str, Any]] = {}
    for name, parameter, factors in _trained_parameters(module):
        key = (factors.lr, factors.decay, factors.norm)
        group = groups.setdefault(
            key,
            {
                "params": [],
                "names": [],
                "lr": lr * factors.lr,
                "weight_decay": weight_decay * factors.decay,
                "lr_factor": factors.lr,
                "norm_multiplicity": factors.norm,
            },
        )
        group["params"].append(parameter)
        group["names"].append(name)
    return list(groups.values())


def _trained_parameters(module: nn.Module) -> Iterator[tuple[str, nn.Parameter, Factors]]:
    seen: set[nn.Parameter] = set()
    stated: dict[str, Factors] = {}  # by the whole name; a module comes before those within it
    for prefix, owner in module.named_modules():
        own = owner.parameter_factors() if hasattr(owner, "parameter_factors") else {}
        stated.update({f"{prefix}.{name}" if prefix else name: own[name] for name in own})
        undecayed = owner.undecayed_parameters() if hasattr(owner, "undecayed_parameters") else ()
        for name, parameter in owner.named_parameters(recurse=False):
            if parameter in seen or not parameter.requires_grad:
                continue
            seen.add(parameter)
            whole_name = f"{prefix}.{name}" if prefix else name
            factors = stated.get(whole_name, Factors())
            if name in undecayed or parameter.ndim < 2:
                factors = Factors(factors.lr, 0.0, factors.norm)
            yield whole_name, parameter, factors
