"""Groups of parameters for the optimiser."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from damcha_core.attention import Factors, build_damcha, build_mha, parameter_groups


class Table(nn.Module):
    """A module that states factors of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.zeros(3, 4))
        self.weight = nn.Parameter(torch.zeros(3, 4))
        self.same = self.weight
        self.frozen = nn.Parameter(torch.zeros(3, 4), requires_grad=False)
        self.linear = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)

    def parameter_factors(self) -> dict[str, Factors]:
        return {"weight": Factors(lr=2.0, decay=0.5, norm=2.0)}

    def undecayed_parameters(self) -> tuple[str, ...]:
        return ("positions",)


def names(groups, **wanted: float) -> list[str]:
    return [
        name
        for group in groups
        if all(group[key] == value for key, value in wanted.items())
        for name in group["names"]
    ]


def test_what_a_module_states_ends_up_in_its_groups() -> None:
    groups = parameter_groups(Table(), lr=0.1, weight_decay=0.4)
    assert names(groups, weight_decay=0.2, lr=0.2, lr_factor=2.0, norm_multiplicity=2.0) == [
        "weight"
    ]
    assert names(groups, weight_decay=0.4, lr=0.1) == ["linear.weight"]
    assert names(groups, weight_decay=0.0, lr=0.1) == [
        "positions",
        "linear.bias",
        "norm.weight",
        "norm.bias",
    ]


def test_every_trained_parameter_is_in_one_group_under_its_name() -> None:
    model = nn.ModuleList([Table(), nn.Linear(2, 2)])
    groups = parameter_groups(model, lr=1.0, weight_decay=0.1)
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    listed = {n: p for g in groups for n, p in zip(g["names"], g["params"], strict=True)}
    assert sum(len(g["params"]) for g in groups) == len(trained)
    assert listed.keys() == trained.keys()
    assert all(listed[n] is trained[n] for n in trained)


@pytest.mark.parametrize("source", ["adaptive", "static"])
def test_a_shared_generator_is_trained_once_with_its_factors(source: str) -> None:
    scales = {"lr_scale": "matrix", "body_lr_scale": 0.5}
    stack = build_damcha(15, 5, 3, source=source, mlp_hidden=(7, 11), **scales)
    model = nn.ModuleDict({"shared": stack.shared, "layers": nn.ModuleList(stack.layers)})
    groups = parameter_groups(model, lr=0.1, weight_decay=0.5)
    if source == "static":
        assert names(groups, lr_factor=5.0, norm_multiplicity=5.0, weight_decay=0.0) == [
            "shared.static"
        ]
    else:
        assert names(groups, lr_factor=5.0, weight_decay=0.1) == ["shared.last_weight"]
        assert names(groups, lr_factor=5.0, weight_decay=0.0) == ["shared.last_bias"]
        body = [f"shared.body.{n}.{kind}" for n in (0, 2) for kind in ("weight", "bias")]
        assert sorted(names(groups, lr_factor=0.5, norm_multiplicity=1.0)) == sorted(body)
        assert names(groups, lr_factor=0.5, weight_decay=0.5) == body[::2]
    assert sum(len(g["params"]) for g in groups) == len(list(model.parameters()))


def test_the_optimiser_takes_the_groups_and_keeps_the_factors() -> None:
    model = nn.ModuleList(build_mha(6, 3, 2).layers)
    optimiser = torch.optim.AdamW(parameter_groups(model, lr=0.1, weight_decay=0.5))
    stored = optimiser.state_dict()["param_groups"]
    assert {group["lr_factor"] for group in stored} == {1.0}
    assert sorted(n for group in stored for n in group["names"]) == sorted(
        n for n, _ in model.named_parameters()
    )
