"""The generator of the metrics: initial values, forms, conversion, refusals."""

from __future__ import annotations

import pytest
import torch

from damcha_core.attention import Factors, MetricGenerator
from damcha_core.attention.structures import STRUCTURES
from damcha_core.catalog.damcha import BODY_LR_SCALE, LR_SCALE

HEADS, WIDTH = 5, 15
EYE = torch.eye(3)


def make(**options: object) -> MetricGenerator:
    return MetricGenerator(WIDTH, HEADS, **({"mlp_hidden": (7, 11)} | options))


@pytest.mark.parametrize("source", ["adaptive", "static"])
@pytest.mark.parametrize("output", ["head", "matrix"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_metrics_can_start_at_the_identity(structure: str, output: str, source: str) -> None:
    generator = make(structure=structure, output=output, source=source, init="identity")
    metrics = generator.head_metrics(torch.randn(2, 4, WIDTH))
    eye = torch.diag(torch.tensor([1.0, 0.0, 0.0])) if structure == "low_rank" else EYE
    torch.testing.assert_close(metrics, eye.expand(2, 4, HEADS, 3, 3), rtol=0, atol=1e-6)
    if source == "adaptive":
        assert not generator.last_weight.any()


@pytest.mark.parametrize("source", ["adaptive", "static"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_the_default_start_is_random(structure: str, source: str) -> None:
    torch.manual_seed(3)
    generator = make(structure=structure, source=source)
    torch.manual_seed(3)
    named = make(structure=structure, source=source, init="random")
    assert all(map(torch.equal, generator.parameters(), named.parameters()))
    metrics = generator.head_metrics(torch.randn(1, WIDTH))
    assert (metrics - EYE).abs().max() > 0.1


@pytest.mark.parametrize("source", ["adaptive", "static"])
def test_both_forms_start_from_one_draw(source: str) -> None:
    torch.manual_seed(3)
    matrix = make(init="random", output="matrix", source=source)
    after_matrix = torch.rand(1)
    torch.manual_seed(3)
    head = make(init="random", output="head", source=source)
    assert torch.equal(torch.rand(1), after_matrix)
    converted = matrix.to_head()
    for name, parameter in head.named_parameters():
        expected = converted.get_parameter(name)
        torch.testing.assert_close(parameter, expected, rtol=0, atol=1e-6, msg=name)


def test_the_matrix_form_starts_as_torchs_linear_layer() -> None:
    torch.manual_seed(3)
    generator = make(init="random", output="matrix")
    torch.manual_seed(3)
    for n_in, n_out in [(WIDTH, 7), (7, 11)]:
        torch.nn.Linear(n_in, n_out)
    linear = torch.nn.Linear(11, WIDTH * WIDTH)
    assert torch.equal(generator.last_weight, linear.weight)
    assert torch.equal(generator.last_bias, linear.bias)


def test_a_static_matrix_starts_as_the_weight_of_a_linear_layer() -> None:
    torch.manual_seed(3)
    generator = make(init="random", output="matrix", source="static")
    torch.manual_seed(3)
    assert torch.equal(generator.static, torch.nn.Linear(WIDTH, WIDTH).weight)


def test_the_head_form_starts_with_the_square_root_of_h_times_the_deviation() -> None:
    sizes = {"mlp_hidden": (4, 64), "init": "random"}
    head, matrix = (make(output=o, **sizes).last_weight.std() for o in ("head", "matrix"))
    assert (head / matrix).item() == pytest.approx(HEADS**0.5, rel=0.05)


@pytest.mark.parametrize("source", ["adaptive", "static"])
def test_conversion_keeps_the_metrics(source: str, redraw) -> None:
    matrix = make(output="matrix", source=source).double()
    redraw(matrix, 5)
    head = matrix.to_head()
    contexts = torch.randn(2, 3, WIDTH, dtype=torch.float64)
    assert head.output == "head"
    torch.testing.assert_close(
        head.head_metrics(contexts), matrix.head_metrics(contexts), rtol=0, atol=1e-13
    )
    assert sum(p.numel() for p in head.parameters()) < sum(p.numel() for p in matrix.parameters())
    assert not {id(p) for p in head.parameters()} & {id(p) for p in matrix.parameters()}


@pytest.mark.parametrize("options", [{}, {"structure": "psd"}, {"structure": "block_diagonal"}])
def test_only_the_matrix_form_of_full_converts(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="only the matrix form of full converts"):
        make(**options).to_head()


def test_the_matrix_is_seen_where_there_is_one(redraw) -> None:
    matrix = make(output="matrix")
    redraw(matrix, 2)
    context = torch.randn(2, WIDTH)
    m = matrix.metric_matrix(context)
    assert m.shape == (2, WIDTH, WIDTH)
    blocks = m.view(2, HEADS, 3, HEADS, 3)
    torch.testing.assert_close(blocks.sum(3), matrix.head_metrics(context))
    static = make(output="matrix", source="static", init="identity")
    assert torch.equal(static.metric_matrix(context), torch.eye(WIDTH).expand(2, -1, -1))
    with pytest.raises(ValueError, match="build the layer with output='matrix'"):
        make().metric_matrix(context)


def factors(**options: object) -> dict[str, Factors]:
    """Factors of what emits M; those of the layers before it are taken off, all alike."""
    generator = make(body_lr_scale=2, **options)
    stated = generator.parameter_factors()
    assert set(stated) <= {name for name, _ in generator.named_parameters()}
    body = {name: stated.pop(name) for name in list(stated) if name.startswith("body.")}
    assert len(body) == (0 if generator.is_static else 4)
    assert set(body.values()) <= {Factors(lr=2.0)}
    return stated


def test_factors_of_the_two_forms() -> None:
    shared, alike = Factors(lr=5.0, decay=0.2, norm=5.0), {"lr_scale": "matrix"}
    assert factors(**alike) == {"last_weight": shared, "last_bias": shared}
    assert factors(source="static", **alike) == {"static": shared}
    plain = dict.fromkeys(("last_weight", "last_bias"), Factors())
    assert factors(output="matrix", **alike) == plain
    for structure in STRUCTURES[1:]:
        assert factors(structure=structure, **alike) == plain


@pytest.mark.parametrize("output", ["head", "matrix"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_number_is_the_factor_of_the_rate_of_what_emits_m(structure: str, output: str) -> None:
    form = {"structure": structure, "output": output}
    for scale in (0.25, 1, 3, 1e-3):
        slow = Factors(lr=float(scale))
        assert factors(**form, lr_scale=scale) == {"last_weight": slow, "last_bias": slow}
        assert factors(**form, lr_scale=scale, source="static") == {"static": slow}
    assert factors(**form) == factors(**form, lr_scale=LR_SCALE)
    assert make().body_lr_scale == BODY_LR_SCALE


def test_what_is_not_decayed() -> None:
    assert make().undecayed_parameters() == ("last_bias",)
    assert make(source="static").undecayed_parameters() == ("static",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "constant"}, "source must be one of adaptive, static"),
        ({"init": "zeros"}, "init must be one of identity, random"),
        ({"lr_scale": "head"}, "lr_scale must be 'matrix' or a number above 0"),
        ({"lr_scale": 0.0}, "lr_scale must be 'matrix' or a number above 0"),
        ({"lr_scale": -1}, "lr_scale must be 'matrix' or a number above 0"),
        ({"lr_scale": float("nan")}, "lr_scale must be 'matrix' or a number above 0"),
        ({"lr_scale": float("inf")}, "lr_scale must be 'matrix' or a number above 0"),
        ({"lr_scale": True}, "lr_scale must be 'matrix' or a number above 0"),
        ({"body_lr_scale": 0.0}, "body_lr_scale must be a number above 0"),
        ({"body_lr_scale": float("nan")}, "body_lr_scale must be a number above 0"),
        ({"mlp_hidden": ()}, "mlp_hidden must list at least one width"),
        ({"mlp_hidden": (8, 0)}, "mlp_hidden must list at least one width"),
        ({"structure": "tridiagonal"}, "structure must be one of"),
    ],
)
def test_other_choices_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_an_adaptive_generator_needs_a_context() -> None:
    with pytest.raises(ValueError, match="needs a context"):
        make().queries(torch.zeros(1, HEADS, 2, 3), None)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_parameters_are_as_many_as_the_formula_says(structure: str) -> None:
    numbers = {
        "full": WIDTH * 3,
        "symmetric": WIDTH * WIDTH,
        "psd": WIDTH * 3,
        "low_rank": 2 * WIDTH * 1,
        "diagonal": WIDTH,
        "block_diagonal": WIDTH * 3,
    }[structure]
    body = WIDTH * 7 + 7 + 7 * 11 + 11
    count = sum(p.numel() for p in make(structure=structure).parameters())
    assert count == body + numbers * 12
    static = make(structure=structure, source="static")
    assert [p.numel() for p in static.parameters()] == [numbers]


def test_the_default_sizes_of_the_last_layer() -> None:
    head = MetricGenerator(128, 8)
    with torch.device("meta"):
        matrix = MetricGenerator(128, 8, output="matrix")
    assert head.last_weight.numel() == 2048 * 512
    assert matrix.last_weight.numel() == 8 * head.last_weight.numel()
