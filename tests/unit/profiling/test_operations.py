"""Counted operations and those of the formulas, against counts written out by hand."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from damcha_core.catalog.attentions import attention_row, attention_rows
from damcha_core.catalog.stack_size import Stack
from damcha_core.config.resolve import resolve_mapping
from damcha_core.models.conditional_lm import ConditionalLM
from damcha_core.models.transformer import TransformerPC
from damcha_core.profiling.operations import (
    ModelOperations,
    counted_operations,
    missing_formulas,
    model_operations,
)

# The function of the same name hides the module from a plain import.
GENERATED_MATMUL = importlib.import_module("damcha_core.attention.generated_matmul")
BOTH = pytest.mark.parametrize("is_causal", [False, True])
NAMES = [row.name for row in attention_rows()]
HIDDEN = (9, 7)
# batch, tokens, d_model, heads, d_ff, layers
SIZES = pytest.mark.parametrize(
    "sizes", [(1, 1, 6, 1, 5, 1), (3, 13, 15, 5, 11, 2), (2, 31, 24, 3, 17, 3), (5, 2, 14, 7, 9, 4)]
)
FUSED = "_scaled_dot_product_flash_attention_for_cpu"


def options_of(name: str) -> dict[str, object]:
    return {"mlp_hidden": HIDDEN} if name.startswith("damcha") else {}


def stack_and_tokens(
    name: str, sizes: tuple[int, ...], is_causal: bool, **options: object
) -> tuple[TransformerPC, torch.Tensor, Stack]:
    batch, tokens, d_model, heads, d_ff, layers = sizes
    given = options_of(name) | options
    model = TransformerPC(
        d_model,
        heads,
        d_ff,
        layers,
        attention=name,
        attention_options=given,
        is_causal=is_causal,
    )
    size = Stack(
        row=attention_row(name),
        options=given,
        d_model=d_model,
        n_heads=heads,
        d_ff=d_ff,
        n_layers=layers,
    )
    return model, torch.randn(batch, tokens, d_model), size


def counted(model: TransformerPC, x: torch.Tensor) -> tuple[int, int]:
    """Operations of a forward pass, and of a backward pass alone."""
    with torch.no_grad():
        forward = counted_operations(lambda: model(x))
    loss = model(x).sum()
    return forward, counted_operations(loss.backward)


@BOTH
@SIZES
def test_mha_takes_what_a_hand_count_says(sizes: tuple[int, ...], is_causal: bool) -> None:
    b, n, d, _, f, layers = sizes
    linear = layers * b * n * (3 * d * d + d * d + d * f + f * d)  # qkv, out, feed-forward
    attention = layers * b * (n * n * d + n * n * d)  # scores, weighted sums
    model, x, size = stack_and_tokens("mha", sizes, is_causal)
    forward, backward = counted(model, x)
    assert forward == 2 * (linear + attention)
    # Two products a product, and the scores of every layer once more.
    assert backward == 2 * (2 * linear + 2 * attention + layers * b * n * n * d)
    expected = ModelOperations(2 * (linear + attention), 4 * (linear + attention))
    assert model_operations(size, n, batch_size=b, is_causal=is_causal) == expected
    assert expected.total == 6 * (linear + attention)


@SIZES
def test_damcha_takes_what_a_hand_count_says(sizes: tuple[int, ...]) -> None:
    """One metric a sequence: the generator runs once a layer and sequence, whatever the length."""
    b, n, d, heads, f, layers = sizes
    k = d // heads
    linear = layers * b * n * (d * d + d * d + d * f + f * d)  # value, out, feed-forward
    attention = layers * b * 2 * n * n * d
    generator = layers * b * (d * HIDDEN[0] + HIDDEN[0] * HIDDEN[1] + HIDDEN[1] * heads * k * k)
    metric = layers * b * n * heads * k * k  # x_i m_i
    model, x, size = stack_and_tokens("damcha", sizes, False)
    forward, backward = counted(model, x)
    expected = linear + attention + generator + metric
    assert forward == 2 * expected
    assert backward == 2 * (2 * expected + layers * b * n * n * d)
    found = model_operations(size, n, batch_size=b, is_causal=False)
    assert found == ModelOperations(2 * expected, 4 * expected)


@pytest.mark.parametrize("is_kept", [True, False])
@SIZES
def test_causal_damcha_takes_what_a_hand_count_says(
    sizes: tuple[int, ...], is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A metric for every token, generated once more in the backward pass where it is not kept."""
    monkeypatch.setattr(GENERATED_MATMUL, "KEPT_BYTES", 2**26 if is_kept else 0)
    b, n, d, heads, f, layers = sizes
    k = d // heads
    linear = layers * b * n * (d * d + d * d + d * f + f * d)
    attention = layers * b * 2 * n * n * d
    last = layers * b * n * HIDDEN[1] * heads * k * k
    generator = layers * b * n * (d * HIDDEN[0] + HIDDEN[0] * HIDDEN[1]) + last
    metric = layers * b * n * heads * k * k
    model, x, size = stack_and_tokens("damcha", sizes, True)
    forward, backward = counted(model, x)
    expected = linear + attention + generator + metric
    assert forward == 2 * expected
    # The gradients of the metrics are outer products of single rows, which count nothing.
    again = layers * b * n * n * d + (0 if is_kept else last)
    assert backward == 2 * (2 * expected + again - metric)
    found = model_operations(size, n, batch_size=b, is_causal=True)
    assert found == ModelOperations(2 * expected, 4 * expected)


def test_the_published_size_by_hand() -> None:
    """d_model 128, 8 heads, d_ff 256, 4 layers, two sequences of 256 tokens."""
    sizes = (2, 256, 128, 8, 256, 4)
    found = {}
    for name in ("mha", "damcha"):
        for is_causal in (False, True):
            model, x, _ = stack_and_tokens(name, sizes, is_causal, **published(name))
            with torch.no_grad():
                found[name, is_causal] = counted_operations(lambda m=model, x=x: m(x))
    block = 256 * (2 * 128 * 256 + 2 * 128 * 128) + 2 * 256 * 256 * 128  # both have these
    queries_and_keys, metric = 256 * 2 * 128 * 128, 256 * 128 * 16
    generator = 128 * 256 + 256 * 512 + 512 * 128 * 16
    expected = 2 * 2 * 4 * (block + queries_and_keys)
    assert found["mha", False] == found["mha", True] == expected == 805_306_368
    expected = 2 * 2 * 4 * (block + metric + generator)
    assert found["damcha", False] == expected == 698_875_904
    expected = 2 * 2 * 4 * (block + metric + 256 * generator)
    assert found["damcha", True] == expected == 5_645_533_184


def published(name: str) -> dict[str, object]:
    return {"mlp_hidden": (256, 512)} if name == "damcha" else {}


def computed_again(size: Stack, n: int, is_causal: bool) -> int:
    """Multiply-adds that a backward pass computes a second time for one sequence, less those that
    are no products of matrices."""
    name, d, heads = size.row.name, size.d_model, size.n_heads
    k = d // heads
    # The scores of every fused attention; two layers form theirs and keep them.
    scores = {"talking-heads": 0, "dcmha": 0, "differential": 2 * d, "collaborative": heads * 16}
    again = n * n * scores.get(name, d)
    # The outer products that make the gradients of a causal damcha's metrics, where a matrix is
    # multiplied with one row: that of a head in a run of one token.
    numbers = {"damcha-low-rank": d * (k // 2)}
    generates = name.startswith("damcha") and "static" not in name and name != "damcha-diagonal"
    if generates and is_causal:
        single = GEOMETRIC.count(1) if name == "damcha-geometric" else n
        again -= single * numbers.get(name, d * k)
    return size.n_layers * again


# Runs of 23 tokens under the counts 1, 2, 3, 4, 5, 7, 9, 12, 15, 19 (ratio 1.25).
GEOMETRIC = [1, 1, 1, 1, 2, 2, 3, 3, 4, 5]


@BOTH
@pytest.mark.parametrize("name", NAMES)
def test_every_row_is_counted_as_its_formula_says(name: str, is_causal: bool) -> None:
    """Forward to the operation; backward with exactly what is computed a second time."""
    sizes = batch, n, *_ = (2, 23, 42, 6, 11, 3)  # fused width 16 for 7 + 1
    if name == "collaborative":
        sizes = batch, n, *_ = (2, 23, 12, 6, 11, 3)  # 12 + 1
    model, x, size = stack_and_tokens(name, sizes, is_causal)
    stated = model_operations(size, n, batch_size=batch, is_causal=is_causal)
    forward, backward = counted(model, x)
    assert forward == stated.forward
    assert backward == stated.backward + 2 * batch * computed_again(size, n, is_causal)


def test_weights_that_layers_share_are_applied_in_each_of_them() -> None:
    sizes = (2, 5, 12, 3, 7, 3)
    shared = stack_and_tokens("damcha", sizes, True)
    unshared = stack_and_tokens("damcha-unshared", sizes, True)
    assert counted(*shared[:2]) == counted(*unshared[:2])
    assert sum(p.numel() for p in shared[0].parameters()) < sum(
        p.numel() for p in unshared[0].parameters()
    )


class Operators(TorchDispatchMode):
    """The names of the operators that ran."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(func._overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


PRODUCTS = re.compile(
    r"mm|mv|dot|matmul|einsum|linear|conv|attention|outer|\bger|cdist|inner|kron|tensordot|chain|trapz"
)


@BOTH
@pytest.mark.parametrize("name", NAMES)
def test_no_product_of_a_row_escapes_the_counter(name: str, is_causal: bool) -> None:
    model, x, _ = stack_and_tokens(name, (2, 11, 24, 6, 8, 2), is_causal)
    with Operators() as ran:
        model(x).sum().backward()
    counts = {packet.__name__ for packet in (*flop_registry, *missing_formulas())}
    products = {operator for operator in ran.names if PRODUCTS.search(operator)}
    assert products
    assert products <= counts, products - counts


A, B, C = torch.randn(5, 7), torch.randn(7, 3), torch.zeros(5, 3)
STACKED = torch.randn(4, 5, 7), torch.randn(4, 7, 3)


@pytest.mark.parametrize(
    ("run", "multiply_adds"),
    [
        (lambda: A @ B, 5 * 7 * 3),
        (lambda: C.clone().addmm_(A, B), 5 * 7 * 3),
        (lambda: torch.addmm(C, A, B), 5 * 7 * 3),
        (lambda: torch.bmm(*STACKED), 4 * 5 * 7 * 3),
        (lambda: torch.zeros(4, 5, 3).baddbmm_(*STACKED), 4 * 5 * 7 * 3),
        (lambda: torch.addbmm(C, *STACKED), 4 * 5 * 7 * 3),
        (lambda: A @ B[:, 0], 5 * 7),
        (lambda: torch.addmv(C[:, 0], A, B[:, 0]), 5 * 7),
        (lambda: A[0] @ B[:, 0], 7),
        (lambda: torch.einsum("ij,jk->ik", A, B), 5 * 7 * 3),
        (lambda: torch.nn.functional.linear(STACKED[0], B.T), 4 * 5 * 7 * 3),
        (lambda: (A[:, :, None] * B).sum(1), 0),  # a product only in what it computes
        (lambda: A.cumsum(1), 0),
    ],
)
def test_every_kind_of_product(run: Callable[[], object], multiply_adds: int) -> None:
    assert counted_operations(run) == 2 * multiply_adds


@BOTH
def test_fused_attention_counts_as_its_two_products(is_causal: bool) -> None:
    """torch 2.14 counts it as nothing on the CPU, which would flatter it."""
    q, k, v = (torch.randn(2, 3, n, 8, requires_grad=True) for n in (13, 13, 13))
    attend = torch.nn.functional.scaled_dot_product_attention
    product = 2 * 3 * 13 * 13 * 8
    with Operators() as ran:
        out = attend(q, k, v, is_causal=is_causal)
    assert FUSED in ran.names
    assert counted_operations(lambda: attend(q, k, v, is_causal=is_causal)) == 2 * 2 * product
    assert counted_operations(out.sum().backward) == 2 * 5 * product


def test_what_torch_counts_itself_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    packet = getattr(torch.ops.aten, FUSED)
    monkeypatch.setitem(flop_registry, packet, lambda *args, **kwargs: 1)
    assert packet not in missing_formulas()


def test_settings_of_a_run_and_its_whole_model() -> None:
    """A text model: stack and head at any length, whatever the task's mean length is."""
    config = resolve_mapping(
        {
            "run": {"task": "cldr"},
            "model": {"d_model": 24, "n_heads": 4, "d_ff": 20, "n_layers": 2, "causal": True},
            "attention": {"name": "damcha", "mlp_hidden": [5, 9]},
        }
    )
    stack = TransformerPC(24, 4, 20, 2, mlp_hidden=(5, 9))
    model = ConditionalLM(31, transformer=stack)
    ids = torch.randint(31, (3, 17))
    found = model_operations(config, 17, batch_size=3, vocab_size=31)
    with torch.no_grad():
        assert found.forward == counted_operations(lambda: model(ids))
    whole = model_operations(config, 17, batch_size=3, vocab_size=31, is_causal=False)
    generator = 24 * 5 + 5 * 9 + 9 * 24 * 6
    assert found.forward - whole.forward == 2 * 3 * 2 * (17 - 1) * generator


def test_a_stack_has_to_be_told_which_it_is() -> None:
    _, _, size = stack_and_tokens("mha", (1, 1, 6, 1, 5, 1), True)
    with pytest.raises(ValueError, match="give is_causal"):
        model_operations(size, 3)
