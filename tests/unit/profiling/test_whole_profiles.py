"""Whole profiles of a tiny stack: structure, parity, memory and sharing; never a time."""

from __future__ import annotations

import pytest
import torch
from small_profiles import CPU, small_candidates, small_profile

from damcha_core.errors import OutOfMemoryError
from damcha_core.profiling import length_sweep, memory_limits, parity, profile
from damcha_core.profiling.operations import model_operations
from damcha_core.profiling.profile_record import ProfileRecord
from damcha_core.profiling.subject import build_subject
from damcha_core.train.precision import Precision


@pytest.fixture(scope="module")
def record() -> ProfileRecord:
    return small_profile("mha", "damcha")


def test_every_row_has_every_figure(record: ProfileRecord) -> None:
    assert [row.label for row in record.rows] == [
        *("mha causal", "mha whole", "damcha causal", "damcha whole"),
    ]
    assert record.main_length == 8
    assert record.baseline == "mha"
    assert record.clock == "cpu time"
    assert not record.parity_failed
    for row in record.rows:
        assert [found.length for found in row.lengths] == [4, 8, 16]
        assert row.hot_spots is not None
        assert row.growth is not None
        for exponent in (row.growth.time, row.growth.flops, row.growth.memory, row.growth.added):
            assert exponent is not None
        assert [found.context for found in row.decoding] == ([4, 8, 16] if row.causal else [])
        for found in row.lengths:
            step = found.step
            assert step is not None
            assert step.rounds == 2
            for times in (step.forward, step.backward, step.optimizer, step.step):
                for spread in (times.wall, times.cpu):
                    assert 0 < spread.p20 <= spread.median <= spread.p80
            assert step.ratio is not None
            assert step.tokens_per_second == pytest.approx(4 * found.length / step.step.wall.median)


def test_the_baseline_is_once_as_slow_as_itself(record: ProfileRecord) -> None:
    for row in record.rows[:2]:
        for found in row.lengths:
            assert found.step is not None
            assert found.step.ratio is not None
            assert found.step.ratio.median == found.step.ratio.p20 == found.step.ratio.p80 == 1


def test_counts_are_those_of_the_formulas(record: ProfileRecord) -> None:
    for row, candidate in zip(record.rows, small_candidates("mha", "damcha"), strict=True):
        assert row.parameters is not None
        assert row.parameters.total == candidate.stack.parameters()
        for found in row.lengths:
            model = model_operations(
                candidate.stack, found.length, batch_size=4, is_causal=row.causal
            )
            assert (found.model_flops, found.model_backward_flops) == (
                model.forward,
                model.backward,
            )
            assert found.counted_flops is not None
            # Less by the outer products of a causal damcha, a product of its metrics; more by what
            # is computed a second time.
            width = candidate.stack.d_model // candidate.stack.n_heads
            outer = 2 * 4 * found.length * candidate.stack.d_model * width
            outer *= candidate.stack.n_layers if candidate.stack.row.name == "damcha" else 0
            assert model.total - outer <= found.counted_flops <= 1.5 * model.total


def test_a_shared_generator_is_counted_once() -> None:
    shared, own = small_profile("damcha", "damcha-unshared", lengths=[4], modes=[True]).rows
    assert shared.parameters is not None
    assert own.parameters is not None
    assert own.parameters.generator == 2 * shared.parameters.generator
    assert own.parameters.total - shared.parameters.total == shared.parameters.generator
    assert shared.parameters.extra == 0
    assert own.parameters.extra == shared.parameters.generator


def test_without_mha_the_first_is_the_baseline() -> None:
    record = small_profile("dcmha", "damcha", lengths=[4], modes=[False])
    assert record.baseline == "dcmha"
    assert all(row.growth and row.growth.time is None for row in record.rows)


def test_the_order_of_the_names_changes_nothing_that_is_counted(record: ProfileRecord) -> None:
    other = small_profile("damcha", "mha")
    by_label = {row.label: row for row in other.rows}
    for row in record.rows:
        twin = by_label[row.label]
        assert twin.parameters == row.parameters
        for found, again in zip(row.lengths, twin.lengths, strict=True):
            skip = {"step", "bound"}
            assert again.model_dump(exclude=skip) == found.model_dump(exclude=skip)


def test_a_layer_that_fails_its_parity_shows_no_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = parity.check_parity

    def failing(name: str, **options: object) -> parity.Parity:
        found = real(name, **options)  # type: ignore[arg-type]
        if name != "damcha" or not options["is_causal"]:
            return found
        return parity.Parity(False, 0.5, float("nan"), found.tolerance, "1.value.weight")

    monkeypatch.setattr(parity, "check_parity", failing)
    record = small_profile("mha", "damcha", lengths=[4])
    assert record.parity_failed
    good, _, failed, also_good = record.rows
    assert failed.label == "damcha causal"
    assert failed.parity.largest_output_error == 0.5
    assert failed.parity.largest_gradient_error is None
    assert (failed.lengths, failed.decoding) == ([], [])
    assert failed.parameters is failed.growth is failed.hot_spots is None
    for row in (good, also_good):
        assert row.lengths[0].step is not None
        assert row.lengths[0].step.ratio is not None


def test_a_broken_layer_is_found_by_the_real_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    from damcha_core.attention.mha import MultiHeadAttention

    real = MultiHeadAttention.attend

    def wrong(self, *arguments):
        return real(self, *arguments) * 1.001

    monkeypatch.setattr(MultiHeadAttention, "attend", wrong)
    record = small_profile("mha", "damcha", lengths=[4], modes=[False])
    assert [row.parity.passed for row in record.rows] == [False, True]
    # There is nothing to compare damcha with.
    assert record.rows[1].lengths[0].step is not None
    assert record.rows[1].lengths[0].step.ratio is None


def test_a_length_that_does_not_fit_is_marked_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_limits, "available_memory", lambda device: 400_000)
    record = small_profile("mha", "damcha", lengths=[4, 8, 50_000, 100_000], modes=[True])
    for row in record.rows:
        assert [found.fits for found in row.lengths] == [True, True, False, False]
        marked = row.lengths[2]
        assert marked.step is None
        assert marked.predicted
        assert marked.needed_bytes is not None
        assert marked.needed_bytes > 400_000 == marked.available_bytes
        assert marked.model_flops > 0
        assert row.growth is not None
        assert row.growth.flops is not None
        assert [found.context for found in row.decoding] == [4, 8]
    assert record.main_length == 8
    assert ProfileRecord.model_validate(record.model_dump(by_alias=True)) == record


def test_no_length_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("damcha_core.profiling.step_cost.measure_cost", fails)
    record = small_profile("mha", lengths=[4], modes=[True])
    assert record.main_length is None
    assert record.rows[0].hot_spots is None
    assert record.rows[0].decoding == []
    assert not record.rows[0].lengths[0].predicted


def test_a_model_that_does_not_fit_ends_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limits, "available_memory", lambda device: 1000)
    (candidate,) = small_candidates("mha", modes=[True])
    with pytest.raises(OutOfMemoryError, match="choose a smaller model"):
        build_subject(candidate, Precision("float32", CPU))


@pytest.mark.parametrize("precision", ["bfloat16", "float64"])
def test_other_number_formats(precision: str) -> None:
    (candidate,) = small_candidates("damcha", modes=[True])
    record = profile.make_profile(
        [candidate],
        [4],
        number_format=Precision(precision, CPU),
        n_threads=2,
        environment={},
        effort=profile.Effort(1, 0.0),
    )
    assert record.machine.precision == precision
    assert record.clock == "wall time"
    assert record.rows[0].lengths[0].step is not None


def test_every_measured_step_is_of_the_same_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.Tensor] = []
    real = length_sweep.time_in_rounds

    def noted(subjects, **options):
        seen.extend(x for _, x in subjects)
        return real(subjects, **options)

    monkeypatch.setattr(length_sweep, "time_in_rounds", noted)
    small_profile("mha", "damcha", lengths=[4], modes=[False])
    assert len(seen) == 2
    assert torch.equal(seen[0], seen[1])
