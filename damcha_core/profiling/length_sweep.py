"""Costs and times of all attentions at one length after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from damcha_core.profiling.clock import CPU_TIME, WALL_TIME, Clock
from damcha_core.profiling.growth import fit_growth
from damcha_core.profiling.memory_limits import OutOfMemory
from damcha_core.profiling.operations import ModelOperations, model_operations
from damcha_core.profiling.profile_record import ClockName, Growth, Length, Machine, Step, Times
from damcha_core.profiling.step_cost import CostMeter, StepCost
from damcha_core.profiling.subject import Subject
from damcha_core.profiling.timing import (
    PHASES,
    STEP,
    StepTime,
    phase_spread,
    step_ratio,
    time_in_rounds,
)


@dataclass(frozen=True)
class Measures:
    """How a sweep measures.

    Attributes:
        clock: of the device.
        steady: the clock of ratios, shares and exponents.
        n_rounds: most rounds at a length.
        seconds: about how long the rounds of a length may take.
        baseline: name of the attention that ratios refer to.
    """

    clock: Clock
    steady: ClockName
    n_rounds: int
    seconds: float
    baseline: str


def sweep_length(
    length: int, meters: Sequence[CostMeter], measures: Measures, machine: Machine
) -> list[Length]:
    """Count and time a step of every subject at one length.

    Args:
        length: number of tokens.
        meters: one a subject; they remember what shorter lengths took.
        measures: how.
        machine: its limits.

    Returns:
        For each subject its figures, or that it does not fit.
    """
    costs = [meter.measure(length) for meter in meters]
    fitting = [
        meter.subject
        for meter, cost in zip(meters, costs, strict=True)
        if isinstance(cost, StepCost)
    ]
    times: dict[str, list[StepTime]] = {}
    if fitting:
        # One array for all: they have one batch, one width and one device.
        x_BND = fitting[0].tokens(length)
        results = time_in_rounds(
            [(subject, x_BND) for subject in fitting],
            clock=measures.clock,
            steady=measures.steady,
            n_rounds=measures.n_rounds,
            seconds=measures.seconds,
        )
        labels = [subject.candidate.label for subject in fitting]
        times = dict(zip(labels, results, strict=True))
    return [
        _figures(length, meter.subject, cost, times, measures, machine)
        for meter, cost in zip(meters, costs, strict=True)
    ]


def _figures(
    length: int,
    subject: Subject,
    cost: StepCost | OutOfMemory,
    times: Mapping[str, Sequence[StepTime]],
    measures: Measures,
    machine: Machine,
) -> Length:
    candidate = subject.candidate
    model = model_operations(
        candidate.stack, length, batch_size=subject.batch_size, is_causal=candidate.is_causal
    )
    if isinstance(cost, OutOfMemory):
        return Length(
            length=length,
            fits=False,
            predicted=cost.predicted,
            needed_bytes=cost.needed_bytes or None,
            available_bytes=cost.available_bytes,
            model_flops=model.forward,
            model_backward_flops=model.backward,
        )
    intensity = cost.counted_flops / cost.moved_bytes
    ridge = machine.matmul_flops / machine.copy_bytes
    return Length(
        length=length,
        fits=True,
        model_flops=model.forward,
        model_backward_flops=model.backward,
        peak_bytes=cost.peak_bytes,
        resident_bytes=cost.resident_bytes,
        counted_flops=cost.counted_flops,
        moved_bytes=cost.moved_bytes,
        intensity=intensity,
        bound="compute" if intensity >= ridge else "memory",
        step=_step(length, subject, model, times, measures, machine),
    )


def _step(
    length: int,
    subject: Subject,
    model: ModelOperations,
    times: Mapping[str, Sequence[StepTime]],
    measures: Measures,
    machine: Machine,
) -> Step:
    candidate = subject.candidate
    own = times[candidate.label]
    base = times.get(f"{measures.baseline} {candidate.mode}")
    forward, backward, optimizer, step = (phase_times(own, phase) for phase in (*PHASES, STEP))
    flops_per_second = model.total / step.by(measures.steady).median
    return Step(
        rounds=len(own),
        forward=forward,
        backward=backward,
        optimizer=optimizer,
        step=step,
        tokens_per_second=subject.batch_size * length / step.wall.median,
        flops_per_second=flops_per_second,
        share_of_peak=flops_per_second / machine.matmul_flops,
        ratio=None if base is None else step_ratio(own, base, measures.steady),
    )


def phase_times(times: Sequence[StepTime], phase: str) -> Times:
    """The spread of a phase by both clocks."""
    return Times(
        wall=phase_spread(times, phase, WALL_TIME), cpu=phase_spread(times, phase, CPU_TIME)
    )


def growth_of(lengths: Sequence[Length], steady: ClockName) -> Growth:
    """Exponents of the figures of one subject over the lengths that fit.

    Args:
        lengths: its figures.
        steady: the clock that counts.
    """
    fitting = [found for found in lengths if found.fits]
    tokens = [found.length for found in fitting]

    def exponent(values: Sequence[float | None]) -> object:
        # What is zero, as the operations of an attention without products, has no exponent.
        known = [float(value) for value in values if value]
        return fit_growth(tokens, known) if len(known) == len(tokens) else None

    return Growth.model_validate(
        {
            "time": exponent([f.step.step.by(steady).median for f in fitting if f.step]),
            "flops": exponent([f.counted_flops for f in fitting]),
            "memory": exponent([f.peak_bytes for f in fitting]),
            "added": exponent([(f.peak_bytes or 0) - (f.resident_bytes or 0) for f in fitting]),
        }
    )
