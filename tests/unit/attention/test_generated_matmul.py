"""The causal operator: values, gradients, chunks, and what it never stores."""

from __future__ import annotations

import importlib

import pytest
import torch
from torch import Tensor

from damcha_core.attention.generated_matmul import generated_matmul
from damcha_core.profiling.memory import measure_memory

# The function of the same name hides the module from a plain import.
MODULE = importlib.import_module("damcha_core.attention.generated_matmul")
BATCH, TOKENS, HEADS, ROWS, COLUMNS, INPUTS = 2, 13, 5, 3, 2, 7
NAMES = ("x", "z", "weight", "bias")
RUNS = [None, (1, 4, 2, 6), (5, 5, 3), (1,) * TOKENS, (TOKENS,)]


def arguments(
    n_groups: int, dtype: torch.dtype = torch.float64, n_runs: int = TOKENS
) -> list[Tensor]:
    random = torch.Generator().manual_seed(5)
    shapes = (
        (BATCH, TOKENS, HEADS, ROWS),
        (BATCH, n_runs, INPUTS),
        (n_groups, ROWS, COLUMNS, INPUTS),
        (n_groups, ROWS, COLUMNS),
    )
    return [
        torch.randn(s, generator=random, dtype=torch.float64).to(dtype).requires_grad_()
        for s in shapes
    ]


def written_out(x: Tensor, z: Tensor, weight: Tensor, bias: Tensor, runs=None) -> Tensor:
    if runs is not None:
        z = z.repeat_interleave(torch.tensor(runs), 1)
    matrices = torch.einsum("gais,bts->btgai", weight, z) + bias
    return torch.einsum("btha,bthai->bthi", x, matrices.expand(-1, -1, HEADS, -1, -1))


@pytest.fixture(params=[HEADS, 1], ids=["matrix a head", "matrix for all heads"])
def n_groups(request) -> int:
    return request.param


@pytest.fixture(params=[1, 3, 4, 2 * TOKENS + 1], ids=lambda n: f"{n} matrices a chunk")
def _chunked(request, n_groups: int, monkeypatch) -> None:
    monkeypatch.setattr(MODULE, "CHUNK_BYTES", request.param * n_groups * ROWS * COLUMNS * 8)


@pytest.fixture(params=[0, 2**26], ids=["generated anew", "kept"])
def _kept(request, monkeypatch) -> None:
    monkeypatch.setattr(MODULE, "KEPT_BYTES", request.param)


@pytest.mark.usefixtures("_chunked", "_kept")
@pytest.mark.parametrize("runs", RUNS, ids=str)
def test_values_and_gradients_are_those_of_the_written_out_formula(n_groups: int, runs) -> None:
    tensors = arguments(n_groups, n_runs=len(runs or range(TOKENS)))
    out = generated_matmul(*tensors, runs)
    expected = written_out(*tensors, runs)
    grad = torch.randn(out.shape, dtype=torch.float64)

    torch.testing.assert_close(out, expected, rtol=0, atol=1e-13)
    ours = torch.autograd.grad(out, tensors, grad)
    true = torch.autograd.grad(expected, tensors, grad)
    for name, a, b in zip(NAMES, ours, true, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("runs", RUNS[:2], ids=str)
def test_gradcheck(n_groups: int, runs, monkeypatch) -> None:
    monkeypatch.setattr(MODULE, "CHUNK_BYTES", 3 * n_groups * ROWS * COLUMNS * 8)
    tensors = arguments(n_groups, n_runs=len(runs or range(TOKENS)))
    assert torch.autograd.gradcheck(lambda *t: generated_matmul(*t, runs), tensors, fast_mode=True)


def test_both_backward_passes_have_the_same_bits(n_groups: int, monkeypatch) -> None:
    gradients = []
    for bound in (0, 2**26):
        monkeypatch.setattr(MODULE, "KEPT_BYTES", bound)
        tensors = arguments(n_groups, torch.float32)
        out = generated_matmul(*tensors)
        gradients.append(torch.autograd.grad(out.square().sum(), tensors))
    assert all(map(torch.equal, *gradients))


def test_a_backward_pass_can_be_repeated(n_groups: int) -> None:
    tensors = arguments(n_groups)
    out = generated_matmul(*tensors).square().sum()
    first = torch.autograd.grad(out, tensors, retain_graph=True)
    assert all(map(torch.equal, first, torch.autograd.grad(out, tensors)))


@pytest.mark.usefixtures("_kept")
@pytest.mark.parametrize("wanted", NAMES)
def test_one_gradient_can_be_asked_for_alone(wanted: str) -> None:
    tensors = arguments(HEADS)
    for name, tensor in zip(NAMES, tensors, strict=True):
        tensor.requires_grad_(name == wanted)
    generated_matmul(*tensors).sum().backward()
    all_tensors = arguments(HEADS)
    written_out(*all_tensors).sum().backward()
    for name, tensor, full in zip(NAMES, tensors, all_tensors, strict=True):
        assert (tensor.grad is not None) == (name == wanted)
        if name == wanted:
            torch.testing.assert_close(tensor.grad, full.grad, rtol=0, atol=1e-12)


def test_no_token_gives_an_empty_output_and_zero_gradients() -> None:
    x, z, weight, bias = arguments(HEADS)
    for empty, runs in (
        ((x[:0], z[:0]), None),
        ((x[:, :0], z[:, :0]), None),
        ((x[:0], z[:0]), RUNS[3]),
    ):
        out = generated_matmul(*empty, weight, bias, runs)
        out.sum().backward()
        assert out.shape == (*empty[0].shape[:3], COLUMNS)
        assert not weight.grad.any()


def test_a_second_derivative_is_refused() -> None:
    tensors = arguments(HEADS)
    (grad,) = torch.autograd.grad(
        generated_matmul(*tensors).square().sum(), tensors[:1], create_graph=True
    )
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


@pytest.mark.parametrize("runs", RUNS[:2], ids=str)
def test_autocast_computes_in_bfloat16_and_keeps_float32_gradients(n_groups: int, runs) -> None:
    n_runs = len(runs or range(TOKENS))
    tensors = arguments(n_groups, torch.float32, n_runs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = generated_matmul(*tensors, runs)
    out.float().sum().backward()
    assert out.dtype == torch.bfloat16
    true = arguments(n_groups, n_runs=n_runs)
    expected = written_out(*true, runs)
    expected.sum().backward()
    assert relative_error(out, expected) < 0.02
    for name, ours, exact in zip(NAMES, tensors, true, strict=True):
        assert ours.grad.dtype == torch.float32
        assert relative_error(ours.grad, exact.grad) < 0.02, name


def test_autocast_leaves_float64_alone() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert generated_matmul(*arguments(HEADS)).dtype == torch.float64


def test_weight_gradients_of_many_chunks_are_added_up_in_float32(monkeypatch) -> None:
    monkeypatch.setattr(MODULE, "CHUNK_BYTES", 1)
    n_tokens = 2000
    x, z = torch.ones(1, n_tokens, 1, 1), torch.ones(1, n_tokens, 1)
    weight, bias = torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1)
    tensors = [t.bfloat16().requires_grad_() for t in (x, z, weight, bias)]
    generated_matmul(*tensors).backward(torch.ones(1, n_tokens, 1, 1, dtype=torch.bfloat16))
    # bfloat16 counts no further than 256 by ones.
    assert tensors[2].grad.item() == pytest.approx(n_tokens, rel=0.01)
    assert tensors[3].grad.item() == pytest.approx(n_tokens, rel=0.01)


@pytest.mark.parametrize("run", [1, 2], ids=["matrix a token", "matrix for two tokens"])
def test_the_peak_stays_below_a_quarter_of_all_matrices(run: int, monkeypatch) -> None:
    n_batch, n_tokens, n_heads, width, inputs = 8, 128 * run, 8, 16, 32
    monkeypatch.setattr(MODULE, "CHUNK_BYTES", 2**18)
    monkeypatch.setattr(MODULE, "KEPT_BYTES", 0)
    tensors = [
        torch.randn(s).requires_grad_()
        for s in (
            (n_batch, n_tokens, n_heads, width),
            (n_batch, n_tokens // run, inputs),
            (n_heads, width, width, inputs),
            (n_heads, width, width),
        )
    ]
    runs = None if run == 1 else (run,) * (n_tokens // run)
    grad = torch.randn(n_batch, n_tokens, n_heads, width)

    def both_passes() -> None:
        out = generated_matmul(*tensors, runs)
        out.backward(grad)

    forward = measure_memory(lambda: generated_matmul(*tensors, runs), "cpu").added_bytes
    peak = measure_memory(both_passes, "cpu").added_bytes
    products = grad.nbytes + sum(t.grad.nbytes for t in tensors)
    quarter = n_batch * n_tokens // run * n_heads * width * width * 4 // 4
    assert 0 < forward - grad.nbytes < quarter
    assert 0 < peak - products < quarter, f"{peak - products:,} bytes"


def test_matrices_are_kept_up_to_the_bound_and_not_beyond(monkeypatch) -> None:
    n_batch, n_tokens, n_heads, width, inputs = 2, 64, 4, 8, 16
    tensors = [
        torch.randn(s).requires_grad_()
        for s in (
            (n_batch, n_tokens, n_heads, width),
            (n_batch, n_tokens, inputs),
            (n_heads, width, width, inputs),
            (n_heads, width, width),
        )
    ]
    all_matrices = n_batch * n_tokens * n_heads * width * width * 4
    chunk = all_matrices // 8
    monkeypatch.setattr(MODULE, "CHUNK_BYTES", chunk)

    def held(bound: int) -> int:
        """Bytes that the graph of a forward pass holds beside its arguments and its output."""
        monkeypatch.setattr(MODULE, "KEPT_BYTES", bound)
        out = generated_matmul(*tensors)
        saved = _operator(out.grad_fn).saved_tensors
        own = {tensor.data_ptr() for tensor in tensors}
        return sum(t.nbytes for t in saved if t.data_ptr() not in own)

    def peak(bound: int) -> int:
        monkeypatch.setattr(MODULE, "KEPT_BYTES", bound)
        grad = torch.randn(n_batch, n_tokens, n_heads, width)
        for tensor in tensors:
            tensor.grad = None
        return measure_memory(lambda: generated_matmul(*tensors).backward(grad), "cpu").added_bytes

    assert held(all_matrices) == all_matrices
    assert held(all_matrices - 1) == 0
    # Above the gradients: what is kept, the chunk of gradients of matrices, and the output with
    # one tensor of its size.
    gradients = sum(tensor.nbytes for tensor in tensors)
    two_outputs = 2 * tensors[0].nbytes
    assert peak(all_matrices) <= gradients + all_matrices + chunk + two_outputs
    assert peak(0) <= gradients + 2 * chunk + two_outputs
    with torch.no_grad():
        added = measure_memory(lambda: generated_matmul(*tensors), "cpu").added_bytes
    assert added <= all_matrices, "nothing is kept where there is no backward pass"


def test_the_written_out_formula_fails_the_bound_on_the_peak() -> None:
    tensors = arguments(HEADS)
    peak = measure_memory(lambda: written_out(*tensors).sum().backward(), "cpu").added_bytes
    assert peak > BATCH * TOKENS * HEADS * ROWS * COLUMNS * 8


def _operator(node):
    """The operator among the last operations of a graph."""
    while not hasattr(node, "saved_tensors"):
        ((node, _),) = node.next_functions
    return node


def relative_error(got: Tensor, expected: Tensor) -> float:
    return ((got.double() - expected).norm() / expected.norm()).item()
