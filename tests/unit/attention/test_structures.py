"""The structures of M: head metrics against block sums of M itself."""

from __future__ import annotations

import pytest
import torch

from damcha_core.attention.structures import STRUCTURES, Structure, make_structure

HEADS, WIDTH = 5, 15
FORMS = [(name, "head") for name in STRUCTURES if name != "full"] + [("full", "matrix")]


def metrics(structure: Structure, numbers: torch.Tensor) -> torch.Tensor:
    first, *others = structure.maps(numbers)
    product = torch.diag_embed(first) if structure.elementwise else first
    for other in others:
        product = product @ other
    return product


def block_sums(matrix: torch.Tensor) -> torch.Tensor:
    head = WIDTH // HEADS
    return matrix.view(HEADS, head, HEADS, head).sum(2)


@pytest.mark.parametrize(("name", "output"), FORMS)
def test_head_metrics_are_the_block_sums_of_the_matrix(name: str, output: str) -> None:
    structure = make_structure(name, WIDTH, HEADS, output=output)
    numbers = torch.randn(structure.n_numbers, dtype=torch.float64)
    expected = block_sums(structure.matrix(numbers))
    torch.testing.assert_close(metrics(structure, numbers), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("name", "output"), [*FORMS, ("full", "head")])
def test_a_sum_on_the_weights_is_the_sum_of_the_output(name: str, output: str) -> None:
    structure = make_structure(name, WIDTH, HEADS, output=output)
    weight = torch.randn(structure.n_numbers, 7, dtype=torch.float64)
    hidden = torch.randn(7, dtype=torch.float64)
    for on_weights, on_output in zip(
        structure.maps(weight), structure.maps(weight @ hidden), strict=True
    ):
        torch.testing.assert_close(on_weights @ hidden, on_output, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("name", "output"), [*FORMS, ("full", "head")])
def test_identity_numbers_give_identity_metrics(name: str, output: str) -> None:
    rank = WIDTH // HEADS if name == "psd" else 0
    structure = make_structure(name, WIDTH, HEADS, output=output, rank=rank)
    eye = torch.eye(WIDTH // HEADS)
    if name == "low_rank":
        eye[structure.rank :] = 0.0
    got = metrics(structure, structure.identity())
    torch.testing.assert_close(got, eye.expand_as(got), rtol=0, atol=1e-6)
    if name not in ("psd", "low_rank") and (name, output) != ("full", "head"):
        assert torch.equal(structure.matrix(structure.identity()), torch.eye(WIDTH))


def test_low_rank_with_the_head_width_starts_from_the_identity() -> None:
    with pytest.warns(UserWarning, match="rank 3 restricts nothing"):
        structure = make_structure("low_rank", WIDTH, HEADS, rank=3)
    got = metrics(structure, structure.identity())
    torch.testing.assert_close(got, torch.eye(3).expand_as(got), rtol=0, atol=1e-6)


def test_what_is_emitted() -> None:
    shapes = {name: make_structure(name, 24, 3).shape for name in STRUCTURES}
    assert shapes == {
        "full": (3, 8, 8),
        "symmetric": (24, 24),
        "psd": (24, 8),
        "low_rank": (2, 24, 4),
        "diagonal": (24,),
        "block_diagonal": (3, 8, 8),
    }
    assert make_structure("full", 24, 3, output="matrix").shape == (24, 24)
    assert make_structure("psd", 24, 3, rank=5).shape == (24, 5)
    assert make_structure("low_rank", 24, 3, rank=5).shape == (2, 24, 5)


def test_what_each_structure_restricts() -> None:
    numbers = {n: torch.randn(make_structure(n, WIDTH, HEADS).n_numbers) for n in STRUCTURES}
    m = {n: make_structure(n, WIDTH, HEADS).matrix(numbers[n]) for n in STRUCTURES if n != "full"}
    assert torch.equal(m["symmetric"], m["symmetric"].T)
    assert torch.linalg.eigvalsh(m["psd"]).min() > -1e-4
    assert torch.linalg.matrix_rank(m["low_rank"]) == 1
    assert torch.equal(m["diagonal"], torch.diag(numbers["diagonal"]))
    summed = block_sums(m["symmetric"]).sum(0)
    torch.testing.assert_close(summed, summed.T)
    assert not torch.allclose(block_sums(m["symmetric"])[0], block_sums(m["symmetric"])[0].T)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "diag"}, "structure must be one of full, symmetric"),
        ({"name": "full", "output": "heads"}, "output must be one of head, matrix"),
        ({"name": "psd", "rank": -1}, "rank must be at least 0"),
        ({"name": "full", "rank": 2}, "only psd and low_rank have a rank"),
        ({"name": "diagonal", "rank": 2}, "only psd and low_rank have a rank"),
    ],
)
def test_other_choices_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_structure(d_model=WIDTH, n_heads=HEADS, **arguments)


def test_the_head_form_holds_no_matrix() -> None:
    structure = make_structure("full", WIDTH, HEADS)
    with pytest.raises(ValueError, match="build the layer with output='matrix'"):
        structure.matrix(structure.identity())


def test_a_bare_structure_implies_nothing() -> None:
    bare = Structure(WIDTH, HEADS)
    for ask in (
        bare.identity,
        lambda: bare.maps(torch.ones(1)),
        lambda: bare.matrix(torch.ones(1)),
    ):
        with pytest.raises(NotImplementedError):
            ask()
