"""DAMCHA with fewer metrics than tokens: the full pass, cached decoding, and what each computes."""

from __future__ import annotations

import sys

import pytest
import torch
from counted_operations import CountedOperations, counted_flops, counted_metrics
from torch import Tensor

from damcha_core.attention import DamchaAttention
from damcha_core.attention.reference.damcha import damcha_reference
from damcha_core.attention.refresh import Packing

HEADS, WIDTH, TOKENS = 3, 21, 41
SMALL = {"mlp_hidden": (7, 11)}
SCHEDULES = [
    {"refresh": "token"},
    {"refresh": 3},
    {"refresh": 16},
    {"refresh": "geometric"},
    {"refresh": "geometric", "refresh_ratio": 2},
]
SPLITS = [[1] * TOKENS, [TOKENS], [17, *[1] * 24], [1, 7, 20, 13], [40, 1]]
PADDING = torch.ones(4, TOKENS, dtype=torch.bool)
PADDING[1, :9] = False
PADDING[2, -9:] = False
PADDING[3] = torch.arange(TOKENS) % 3 > 0
every_schedule = pytest.mark.parametrize(
    "schedule", SCHEDULES, ids=lambda s: "-".join(map(str, s.values()))
)


@pytest.fixture
def make(redraw):
    """Builder of a redrawn layer in float64."""

    def build(**options) -> DamchaAttention:
        layer = DamchaAttention(WIDTH, HEADS, **(SMALL | options)).double()
        redraw(layer, 3)
        return layer

    return build


def tokens(batch: int = 4) -> Tensor:
    return torch.randn(batch, TOKENS, WIDTH, dtype=torch.float64)


def decoded(layer: DamchaAttention, x: Tensor, mask: Tensor | None, split: list[int]) -> Tensor:
    """The outputs of a pass in steps of these numbers of tokens."""
    cache, outputs, start = layer.new_cache(), [], 0
    for n_new in split:
        new = slice(start, start + n_new)
        own = None if mask is None else mask[:, new]
        outputs.append(layer(x[:, new], key_mask=own, is_causal=True, cache=cache))
        start += n_new
    assert cache.length == TOKENS
    return torch.cat(outputs, 1)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("split", SPLITS, ids=["ones", "whole", "prompt", "parts", "last"])
@every_schedule
def test_a_cached_step_is_the_full_pass_at_every_position(schedule, split, padded, make) -> None:
    layer, x = make(**schedule), tokens()
    mask = PADDING if padded else None
    keep = PADDING if padded else torch.ones_like(PADDING)
    full = layer(x, key_mask=mask, is_causal=True)
    steps = decoded(layer, x, mask, split)
    torch.testing.assert_close(steps[keep], full[keep], rtol=0, atol=1e-12)


@pytest.mark.parametrize("structure", ["psd", "low_rank", "diagonal", "symmetric"])
@pytest.mark.parametrize("source", ["adaptive", "static"])
def test_so_it_is_for_every_structure(structure: str, source: str, make) -> None:
    layer, x = make(structure=structure, source=source, refresh="geometric"), tokens()
    full = layer(x, key_mask=PADDING, is_causal=True)
    steps = decoded(layer, x, PADDING, SPLITS[3])
    torch.testing.assert_close(steps[PADDING], full[PADDING], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "schedule", [{"refresh": 1}, {"refresh": "geometric", "refresh_ratio": 1.001}]
)
@pytest.mark.parametrize("mask", [None, PADDING], ids=["no mask", "padded"])
def test_a_metric_for_every_token_is_the_exact_layer(schedule, mask, make) -> None:
    x = tokens()
    exact = make()(x, key_mask=mask, is_causal=True)
    layer = make(**schedule)
    torch.testing.assert_close(layer(x, key_mask=mask, is_causal=True), exact, rtol=0, atol=1e-12)
    steps = decoded(layer, x, mask, SPLITS[3])
    torch.testing.assert_close(steps, exact, rtol=0, atol=1e-12)


@every_schedule
def test_pads_on_either_side_change_nothing(schedule, make) -> None:
    layer, x = make(**schedule), tokens(1)
    pads = torch.randn(1, 5, WIDTH, dtype=torch.float64)
    alone = layer(x, is_causal=True)
    real = torch.arange(TOKENS + 5)
    for both, keep in (
        (torch.cat([pads, x], 1), real >= 5),
        (torch.cat([x, pads], 1), real < TOKENS),
    ):
        out = layer(both, key_mask=keep[None], is_causal=True)
        torch.testing.assert_close(out[:, keep], alone, rtol=0, atol=1e-12)


@every_schedule
def test_without_causality_it_has_no_effect(schedule, make) -> None:
    x = tokens()
    assert torch.equal(make(**schedule)(x, key_mask=PADDING), make()(x, key_mask=PADDING))


@every_schedule
@pytest.mark.parametrize("mask", [None, PADDING], ids=["no mask", "padded"])
def test_the_metrics_shown_are_those_used(schedule, mask, make) -> None:
    layer, x = make(**schedule), tokens()
    x = layer.check(x, mask)
    metrics = layer.head_metrics(x, key_mask=mask, is_causal=True)
    shown = torch.einsum("bhnk,bnhkl->bhnl", layer.split_heads(x), metrics)
    torch.testing.assert_close(layer.queries(x, mask, True), shown, rtol=0, atol=1e-12)


@pytest.mark.parametrize("structure", ["full", "psd", "diagonal"])
@pytest.mark.parametrize("schedule", SCHEDULES[1::2], ids=["3", "geometric"])
def test_gradients_are_those_of_the_slow_reference(schedule, structure: str, make) -> None:
    layer = make(structure=structure, **schedule)
    x, mask = tokens(2)[:, :13].clone().requires_grad_(), PADDING[[1, 3], :13]
    weight = torch.randn(x.shape, dtype=torch.float64) * mask[..., None]
    inputs = [x, *layer.parameters()]
    fast = layer(x, key_mask=mask, is_causal=True)
    slow = damcha_reference(layer, x, mask, is_causal=True)
    torch.testing.assert_close(fast * weight, slow * weight, rtol=1e-10, atol=1e-11)
    ours = torch.autograd.grad((fast * weight).sum(), inputs)
    true = torch.autograd.grad((slow * weight).sum(), inputs)
    for a, b in zip(ours, true, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)


class NextToken(DamchaAttention):
    """Broken: the mean of a refresh point runs one token too far."""

    def queries(self, x_BND, key_mask, is_causal):
        return super().queries(x_BND.roll(-1, 1), key_mask, is_causal)


def leaks(layer: DamchaAttention, mask: Tensor | None) -> int:
    """How many prefixes of the outputs move by a bit when all later tokens are replaced."""
    x, found = tokens(), 0
    out = layer(x, key_mask=mask, is_causal=True)
    for t in range(0, TOKENS - 1, 3):
        other = torch.cat([x[:, : t + 1], torch.randn_like(x[:, t + 1 :])], 1)
        moved = layer(other, key_mask=mask, is_causal=True)
        found += not torch.equal(moved[:, : t + 1], out[:, : t + 1])
    return found


@every_schedule
@pytest.mark.parametrize("mask", [None, PADDING], ids=["no mask", "padded"])
def test_no_later_token_moves_a_bit(schedule, mask, make, redraw) -> None:
    assert leaks(make(**schedule), mask) == 0
    twin = NextToken(WIDTH, HEADS, **SMALL, **schedule).double()
    redraw(twin, 3)
    assert leaks(twin, mask) > 3


@every_schedule
def test_a_masked_token_moves_no_bit_of_a_step(schedule, make) -> None:
    layer, x = make(**schedule), tokens()
    other = torch.where(PADDING[..., None], x, torch.randn_like(x))
    before, after = (decoded(layer, y, PADDING, SPLITS[3]) for y in (x, other))
    assert torch.equal(before[PADDING], after[PADDING])


@pytest.mark.parametrize(
    ("schedule", "n_metrics"), list(zip(SCHEDULES, [40, 14, 3, 13, 6], strict=True)), ids=str
)
def test_forty_tokens_need_this_many_metrics(schedule, n_metrics: int, make) -> None:
    layer, x = make(**schedule), tokens(1)[:, :40]
    with counted_metrics(layer.generator.body) as full:
        layer(x, is_causal=True)
    assert sum(full) == n_metrics
    for split in ([1] * 40, [40], [9, 30, 1]):
        cache = layer.new_cache()
        with counted_metrics(layer.generator.body) as steps:
            for part in x.split(split, 1):
                layer(part, is_causal=True, cache=cache)
        assert sum(steps) == n_metrics


def test_every_row_of_a_batch_has_its_own_refresh_points(make) -> None:
    layer, x = make(refresh=16), tokens()
    cache = layer.new_cache()
    with counted_metrics(layer.generator.body) as steps:
        for t in range(TOKENS):
            own = PADDING[:, t : t + 1]
            layer(x[:, t : t + 1], key_mask=own, is_causal=True, cache=cache)
    assert sum(steps) == sum(-(-int(n) // 16) for n in PADDING.sum(1))


@pytest.mark.parametrize("schedule", SCHEDULES[1:], ids=str)
def test_the_full_pass_generates_at_refresh_points_alone(schedule, make) -> None:
    """Operations of the linear layers, beside those of the exact layer."""
    n_tokens, exact, other = 512, make(), make(**schedule)
    x = torch.randn(1, n_tokens, WIDTH, dtype=torch.float64)
    with counted_flops() as of_exact:
        exact(x, is_causal=True)
    with counted_flops() as of_other:
        other(x, is_causal=True)
    n_saved = n_tokens - len(other.refresh.counts(n_tokens))
    a_metric = 2 * (WIDTH * 7 + 7 * 11 + 11 * WIDTH * (WIDTH // HEADS))
    assert of_exact["aten.addmm"] - of_other["aten.addmm"] == n_saved * a_metric
    assert of_other["aten.bmm"] <= 4 * of_exact["aten.bmm"]
    totals = [sum(counts.values()) for counts in (of_exact, of_other)]
    assert totals[1] < 0.8 * totals[0]
    sys.stdout.write(
        f"{n_tokens} tokens: {totals[0]:,} operations exact, {totals[1]:,} with {schedule}\n"
    )


@pytest.mark.parametrize("places", [(48, 96, 480), (50, 98, 482)], ids=["renewed", "kept"])
@every_schedule
def test_the_metric_of_a_step_costs_the_same_at_any_length(schedule, places, make) -> None:
    """After the first places a whole number s has a new metric, after the others it has none."""
    layer = make(**schedule)
    costs = set()
    for n_before in places:
        cache = layer.new_cache()
        x = torch.randn(2, n_before + 1, WIDTH, dtype=torch.float64)
        layer(x[:, :-1], is_causal=True, cache=cache)
        new = x[:, -1:]
        with counted_flops() as flops, CountedOperations() as operations, torch.no_grad():
            cache.queries(layer.generator, layer.refresh, new, layer.split_heads(new), None)
        costs.add((sum(flops.values()), operations.n_operators, operations.n_elements))
    assert len(costs) == 1
    assert min(costs)[0] > 0


def test_beam_search_may_reorder_the_batch(make) -> None:
    layer, x = make(refresh="geometric"), tokens()
    cache = layer.new_cache()
    layer(x[:, :20], key_mask=PADDING[:, :20], is_causal=True, cache=cache)
    rows = torch.tensor([3, 1, 1])
    cache.reorder(rows)
    mask = PADDING[rows]
    steps = [
        layer(x[rows, t : t + 1], key_mask=mask[:, t : t + 1], is_causal=True, cache=cache)
        for t in range(20, TOKENS)
    ]
    full = layer(x[rows], key_mask=mask, is_causal=True)[:, 20:]
    kept = mask[:, 20:]
    torch.testing.assert_close(torch.cat(steps, 1)[kept], full[kept], rtol=0, atol=1e-12)


def test_pads_come_after_the_packed_tokens_and_have_zero_queries(make) -> None:
    layer = make(refresh=3)
    x = layer.check(tokens(), PADDING)
    assert not layer.queries(x, PADDING, True).transpose(1, 2)[~PADDING].any()
    assert not Packing(PADDING).pack(x)[1, 32:].any()


def test_steps_of_nothing_but_pads_are_steps(make) -> None:
    layer, x = make(refresh=3), tokens()
    mask = PADDING.clone()
    mask[:, :4] = False
    full = layer(x, key_mask=mask, is_causal=True)
    steps = decoded(layer, x, mask, [1, 2, 38])
    torch.testing.assert_close(steps[mask], full[mask], rtol=0, atol=1e-12)
    assert (steps[:, :3] == layer.out.bias).all()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@every_schedule
def test_it_is_deterministic_and_decodes_on_a_gpu(schedule, make) -> None:
    layer = make(**schedule).cuda()
    x, mask = tokens().cuda().requires_grad_(), PADDING.cuda()
    torch.use_deterministic_algorithms(True)
    try:
        full = layer(x, key_mask=mask, is_causal=True)
        full.square().sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    assert x.grad.isfinite().all()
    steps = decoded(layer, x.detach(), mask, SPLITS[3])
    torch.testing.assert_close(steps[mask], full.detach()[mask], rtol=0, atol=1e-10)
