"""Peaks against counts by hand, against torch's tracker, and against the process itself."""

from __future__ import annotations

import gc
import importlib
import math
import weakref

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from damcha_core.attention import build_attention
from damcha_core.models.transformer import TransformerPC
from damcha_core.profiling.memory import MemoryUse, measure_memory

# The function of the same name hides the module from a plain import.
KEPT_BYTES = importlib.import_module("damcha_core.attention.generated_matmul").KEPT_BYTES

BOTH = pytest.mark.parametrize("is_causal", [False, True])
FLOAT = 4


def drop_gradients(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.grad = None


# batch B, widths D -> F -> E; each makes another moment the dearest
CHAINS = pytest.mark.parametrize(
    ("b", "d", "f", "e"), [(64, 5, 17, 3), (3, 101, 37, 5), (41, 7, 3, 111), (2, 3, 97, 89)]
)


@CHAINS
def test_a_chain_of_linear_layers_forward(b: int, d: int, f: int, e: int) -> None:
    """h = x W, a = relu(h), y = a V: h and a are alive together, then a and y."""
    chain = nn.Sequential(nn.Linear(d, f, bias=False), nn.ReLU(), nn.Linear(f, e, bias=False))
    x = torch.randn(b, d)

    def run() -> None:
        with torch.no_grad():
            chain(x)

    found = measure_memory(run, "cpu")
    assert found.start_bytes == FLOAT * (b * d + d * f + f * e)
    assert found.added_bytes == FLOAT * max(2 * b * f, b * f + b * e)
    assert found.peak_bytes == found.start_bytes + found.added_bytes


@CHAINS
def test_a_chain_of_linear_layers_forward_and_backward(b: int, d: int, f: int, e: int) -> None:
    """a is kept for both products after it; each gradient is a tensor as large as its subject."""
    chain = nn.Sequential(nn.Linear(d, f, bias=False), nn.ReLU(), nn.Linear(f, e, bias=False))
    x, grad = torch.randn(b, d), torch.randn(b, e)

    def run() -> None:
        y = chain(x)
        y.backward(grad)

    found = measure_memory(run, "cpu")
    a = h = b * f
    y, grad_v, grad_w = b * e, f * e, d * f
    moments = (
        h + a,
        a + y,
        a + y + grad_v + a,  # gradient of a; no gradient of x is wanted
        a + y + grad_v + a + h,  # that of h, from that of a and a itself
        y + grad_v + h + grad_w,
    )
    assert found.added_bytes == FLOAT * max(moments)
    assert found.start_bytes == FLOAT * (b * d + b * e + d * f + f * e)


@pytest.mark.parametrize("n", [256, 1024])
def test_fused_and_written_out_attention(n: int) -> None:
    """The output and one number a query, linear in N; or two tables of scores, quadratic."""
    b, h, k = 2, 2, 16
    q, key, v = (torch.randn(b, h, n, k) for _ in range(3))
    fused = measure_memory(lambda: functional.scaled_dot_product_attention(q, key, v), "cpu")
    written_out = measure_memory(lambda: torch.softmax(q @ key.mT, -1) @ v, "cpu")
    assert fused.start_bytes == written_out.start_bytes == FLOAT * 3 * b * h * n * k
    assert fused.added_bytes == FLOAT * b * h * (n * k + n)
    assert written_out.added_bytes == FLOAT * b * h * 2 * n * n


@BOTH
@pytest.mark.parametrize(
    ("b", "n", "d", "h", "layers"), [(2, 256, 128, 8, 4), (1, 37, 24, 3, 1), (3, 64, 30, 5, 2)]
)
def test_a_whole_mha_model_in_training(
    b: int, n: int, d: int, h: int, layers: int, is_causal: bool
) -> None:
    """To the byte, in units of one array of tokens; the hidden layer is twice as wide."""
    model = TransformerPC(d, h, 2 * d, layers, attention="mha", is_causal=is_causal)
    x = torch.randn(b, n, d)
    found = measure_memory(lambda: model(x).sum().backward(), "cpu")
    tokens, norm, scale = FLOAT * b * n * d, 2 * FLOAT * b * n, FLOAT * d
    # Of a block: normed, q, k, v, heads, sum, normed, hidden (2), activated (2), sum; of each norm
    # mean and deviation, of the attention one number a query and head.
    block = 12 * tokens + 2 * norm + FLOAT * b * h * n
    # The dearest moment is at the last linear layer of the last block: the last norm has given up
    # what it kept, the last sum too, for the gradients of its weights and of that sum; then come
    # the gradients of the activated numbers and of the layer's weights. Loss and 1 are numbers.
    kept = layers * block - tokens
    gradients = 2 * scale + tokens + 2 * tokens + (FLOAT * 2 * d * d + scale)
    assert found.added_bytes == kept + gradients + 2 * FLOAT
    assert found.start_bytes == tokens + sum(p.nbytes for p in model.parameters())


@pytest.mark.parametrize(
    ("name", "is_causal", "arrays"),
    # Input and output of the attention, its residual sum, normed, hidden (2), activated (2); or,
    # where that is more, input, normed, values, pool, hidden layer of the generator (4, as it is
    # 512 wide), its metrics (16), the tokens in rows, their products, and the queries.
    [("mha", False, 8), ("mha", True, 8), ("damcha", False, 8), ("damcha", True, 26)],
)
def test_the_published_size_forward(name: str, is_causal: bool, arrays: int) -> None:
    """In units of one array of tokens of two sequences of 256; metrics in one chunk of 4 MiB."""
    model = TransformerPC(128, 8, 256, 4, attention=name, is_causal=is_causal)
    x = torch.randn(2, 256, 128)

    def run() -> None:
        with torch.no_grad():
            model(x)

    assert measure_memory(run, "cpu").added_bytes == arrays * FLOAT * 2 * 256 * 128


def training_bytes(name: str, n_tokens: int, is_causal: bool) -> int:
    """What a layer adds in a forward and a backward pass, gradients of the weights included."""
    layer = build_attention(name, 64, 4, 1).layers[0]
    x = torch.randn(2, n_tokens, 64, requires_grad=True)
    return measure_memory(lambda: layer(x, is_causal=is_causal).sum().backward(), "cpu").added_bytes


@BOTH
def test_growth_with_the_length(is_causal: bool) -> None:
    """Fused attention is linear, exactly but for what has no length; scores are quadratic."""
    lengths = (256, 512, 1024)
    first, second, third = (training_bytes("mha", n, is_causal) for n in lengths)
    assert third - second == 2 * (second - first)
    first, second, third = (training_bytes("talking-heads", n, is_causal) for n in lengths)
    assert math.log2((third - second) / (second - first)) > 1.9


@pytest.mark.parametrize("name", ["damcha", "damcha-symmetric", "damcha-geometric"])
def test_causal_damcha_never_holds_a_metric_for_every_token(name: str) -> None:
    """[B, N, D, K] of it would be 128 MiB; the whole layer with its gradients takes less."""
    b, n, d, heads = 8, 2048, 64, 2
    layer = build_attention(name, d, heads, 1, options={"mlp_hidden": (16, 8)}).layers[0]
    x = torch.randn(b, n, d, requires_grad=True)
    found = measure_memory(lambda: layer(x, is_causal=True).sum().backward(), "cpu")
    metrics = FLOAT * b * n * d * (d // heads)
    assert metrics == 128 * 2**20 > KEPT_BYTES
    assert 6 * FLOAT * b * n * d < found.added_bytes < metrics


def test_the_written_out_metrics_fail_that_bound() -> None:
    """Control: the same figure sees such a tensor where there is one."""
    b, n, d, heads = 4, 2048, 64, 2
    layer = build_attention("damcha", d, heads, 1, options={"mlp_hidden": (16, 8)}).layers[0]
    x = torch.randn(b, n, d)
    found = measure_memory(lambda: layer.head_metrics(x, is_causal=True), "cpu")
    assert found.added_bytes > FLOAT * b * n * d * (d // heads)


@BOTH
@pytest.mark.parametrize("name", ["mha", "damcha", "damcha-geometric", "dcmha"])
def test_the_figure_agrees_with_the_tracker_of_torch(name: str, is_causal: bool) -> None:
    tracker_module = pytest.importorskip(
        "torch.distributed._tools.mem_tracker", reason="this torch has no memory tracker"
    )
    model = TransformerPC(32, 4, 24, 2, attention=name, is_causal=is_causal)
    x = torch.randn(2, 65, 32)

    def run() -> None:
        model(x).sum().backward()

    found = measure_memory(run, "cpu")
    drop_gradients(model)
    tracker = tracker_module.MemTracker()
    tracker.track_external(model, x)
    with tracker:
        run()
    (peak,) = tracker.get_tracker_snapshot("peak").values()
    # The tracker learns of the numbers of a geometric schedule when an operator reads them.
    assert abs(found.peak_bytes - peak["Total"]) <= (4096 if name == "damcha-geometric" else 8)


def test_a_storage_counts_once_and_as_long_as_it_lives() -> None:
    kept = torch.ones(10)

    def run() -> None:
        first = kept + 1
        second = first + 1  # 80 bytes
        del first
        second.add_(1)
        second.view(2, 5).t().relu_()
        third = second[:5] + 1  # 60 bytes
        assert third.shape == (5,)

    assert measure_memory(run, "cpu") == MemoryUse(peak_bytes=120, start_bytes=40)


def test_what_is_there_counts_when_it_is_touched_and_until_it_is_freed() -> None:
    """Noticed late, it has been there all the time, so it belongs to the earlier peak as well."""
    held = [torch.ones(1000), torch.ones(100)]
    untouched = torch.ones(10_000)

    def run() -> None:
        large = torch.zeros(500)
        del large
        held[0].sum()
        held.pop(0)
        torch.zeros(700)

    found = measure_memory(run, "cpu")
    assert found == MemoryUse(peak_bytes=FLOAT * (1000 + 500), start_bytes=FLOAT * 1000)
    assert untouched.numel() == 10_000


def test_a_graph_that_was_there_is_freed_as_it_is_run_backward() -> None:
    x = torch.ones(1000, requires_grad=True)
    graph = [x.exp().sin().sum()]
    found = measure_memory(lambda: graph.pop().backward(), "cpu")
    # Both results are kept for it (the sum keeps nothing); sin gives up its own before exp runs.
    assert found.start_bytes <= FLOAT * (2 * 1000 + 2)
    assert FLOAT * 2 * 1000 <= found.added_bytes <= FLOAT * (3 * 1000 + 1)


def test_a_storage_that_grows_in_place() -> None:
    def run() -> None:
        tensor = torch.zeros(10)
        tensor.resize_(1000)
        tensor.resize_(500)

    assert measure_memory(run, "cpu") == MemoryUse(peak_bytes=4000, start_bytes=0)


def test_a_tensor_made_of_numbers_is_new() -> None:
    def run() -> None:
        torch.zeros(500)
        torch.tensor([1.0] * 100)

    assert measure_memory(run, "cpu") == MemoryUse(peak_bytes=2000, start_bytes=0)


def test_buffers_of_an_autograd_function_count() -> None:
    class Wasteful(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:
            torch.zeros(5000)
            return x.clone()

        @staticmethod
        def backward(ctx: object, grad: Tensor) -> Tensor:
            torch.zeros(7000)
            return grad

    x = torch.ones(10, requires_grad=True)

    def forward() -> None:
        with torch.no_grad():
            Wasteful.apply(x)

    assert measure_memory(forward, "cpu").added_bytes == FLOAT * 5000
    # Beside the buffer: the output is freed, the loss and its gradient are two numbers.
    backward = measure_memory(lambda: Wasteful.apply(x).sum().backward(), "cpu").added_bytes
    assert FLOAT * 7000 < backward <= FLOAT * (7000 + 10 + 2)


def test_tensors_of_other_devices_do_not_count() -> None:
    found = measure_memory(lambda: torch.zeros(10**12, device="meta") + torch.zeros(()), "cpu")
    assert found.peak_bytes == FLOAT


def test_the_figure_is_the_same_in_every_run_and_nothing_stays() -> None:
    model = TransformerPC(16, 4, 8, 2)
    x = torch.randn(2, 9, 16)
    alive: list[weakref.ref[Tensor]] = []

    def run() -> None:
        y = model(x)
        alive.append(weakref.ref(y))
        y.sum().backward()

    figures = set()
    for _ in range(3):
        figures.add(measure_memory(run, "cpu"))
        drop_gradients(model)
    gc.collect()
    assert len(figures) == 1
    assert not any(reference() is not None for reference in alive)


def test_an_error_of_the_code_comes_through() -> None:
    with pytest.raises(ZeroDivisionError):
        measure_memory(lambda: 1 // 0, "cpu")
    assert measure_memory(lambda: torch.zeros(2), "cpu").peak_bytes == 8


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_allocator_of_a_gpu() -> None:
    """Blocks of 512 bytes, so that a multiple of it is exact."""
    kept = torch.ones(1024, device="cuda")

    def run() -> None:
        first = kept + 1
        second = first + 1
        del first
        second.view(2, 512)[0] + 1

    found = measure_memory(run, "cuda")
    assert found.start_bytes >= kept.nbytes
    assert found.added_bytes == 2 * kept.nbytes
