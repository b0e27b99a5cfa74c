"""The whole profile: parity first, then sizes, costs and times of the layers that pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from damcha_core.catalog.attentions import attention_row
from damcha_core.profiling import parity
from damcha_core.profiling.clock import Clock, device_clock, steady_clock
from damcha_core.profiling.decoding_time import time_decoding
from damcha_core.profiling.effort import Effort
from damcha_core.profiling.hot_spots import find_hot_spots
from damcha_core.profiling.length_sweep import Measures, growth_of, sweep_length
from damcha_core.profiling.lengths import main_length
from damcha_core.profiling.machine import MachineLimits, measure_machine
from damcha_core.profiling.memory_limits import OutOfMemory, out_of_memory_guard
from damcha_core.profiling.parameters import count_parameters
from damcha_core.profiling.plan import BASELINE, Candidate
from damcha_core.profiling.profile_record import (
    ClockName,
    Decoding,
    HotSpots,
    Length,
    Machine,
    Parameters,
    Parity,
    ProfileRecord,
    Row,
    Size,
)
from damcha_core.profiling.step_cost import CostMeter
from damcha_core.profiling.subject import NumberFormat, Subject, build_subject

WATCHED_SECONDS, MOST_WATCHED = 0.3, 10
"""About how long a profiler watches, and the most steps that it does."""


def make_profile(
    candidates: Sequence[Candidate],
    lengths: Sequence[int],
    *,
    number_format: NumberFormat,
    n_threads: int,
    environment: Mapping[str, Any],
    effort: Effort | None = None,
    tell: Callable[[str], None] = lambda text: None,
    clock: Clock | None = None,
) -> ProfileRecord:
    """Measure attentions where this process runs.

    Args:
        candidates: what to measure, of one size; at least one.
        lengths: numbers of tokens, shortest first.
        number_format: number format and device.
        n_threads: CPU threads that torch is set to.
        environment: versions, git state and the like, for the record.
        effort: how thorough; None: as usual.
        tell: is given a line now and then.
        clock: of the device; None: its own.

    Raises:
        OutOfMemoryError: not even the weights and their optimiser fit.
    """
    clock = clock or device_clock(number_format.device)
    steady = steady_clock(number_format.device, n_threads)
    tell("measuring the machine")
    machine = _machine(measure_machine(number_format, clock, steady), number_format, n_threads)
    bench = Bench(candidates, number_format, clock, steady, machine, effort or Effort(), tell)
    bench.sweep(lengths)
    at = bench.main_length(lengths)
    config = candidates[0].config
    return ProfileRecord(
        environment=dict(environment),
        machine=machine,
        size=Size(
            d_model=config.model.d_model,
            n_heads=config.model.n_heads,
            d_ff=config.model.d_ff,
            n_layers=config.model.n_layers,
            dropout=config.model.dropout,
            batch_size=config.train.batch_size,
        ),
        clock=steady,
        baseline=bench.measures.baseline,
        lengths=list(lengths),
        main_length=at,
        rows=bench.rows(at),
    )


def baseline_of(candidates: Sequence[Candidate]) -> str:
    """The attention that ratios refer to: mha if it takes part, else the first."""
    names = [candidate.name for candidate in candidates]
    return BASELINE if BASELINE in names else names[0]


def _machine(limits: MachineLimits, number_format: NumberFormat, n_threads: int) -> Machine:
    return Machine(
        device=str(number_format.device),
        processor=limits.processor,
        cores=limits.cores,
        threads=n_threads,
        precision=number_format.name,
        load=limits.load,
        matmul_flops=limits.matmul_flops,
        copy_bytes=limits.copy_bytes,
    )


class Bench:
    """The candidates of a profile while they are measured.

    Args:
        candidates: what to measure.
        number_format: number format and device.
        clock: of the device.
        steady: the clock of ratios.
        machine: its limits.
        effort: how thorough.
        tell: is given a line now and then.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        number_format: NumberFormat,
        clock: Clock,
        steady: ClockName,
        machine: Machine,
        effort: Effort,
        tell: Callable[[str], None],
    ) -> None:
        self.candidates = candidates
        self.machine = machine
        self.tell = tell
        baseline = baseline_of(candidates)
        self.measures = Measures(clock, steady, effort.n_rounds, effort.seconds, baseline)
        tell("comparing each layer with its reference")
        device = number_format.device
        self.parity = {c.label: _parity(c, device) for c in candidates}
        self.subjects = {
            c.label: build_subject(c, number_format)
            for c in candidates
            if self.parity[c.label].passed
        }
        self.lengths: dict[str, list[Length]] = {label: [] for label in self.subjects}

    def sweep(self, lengths: Sequence[int]) -> None:
        """Measure every length; what does not fit at one is not tried at a longer one."""
        meters = {label: CostMeter(subject) for label, subject in self.subjects.items()}
        for length in lengths:
            if not meters:
                return
            self.tell(f"length {length:,}: {', '.join(meters)}")
            found = sweep_length(length, list(meters.values()), self.measures, self.machine)
            for label, figures in zip(list(meters), found, strict=True):
                self.lengths[label].append(figures)

    def main_length(self, lengths: Sequence[int]) -> int | None:
        """The length of the first table among those that fit everywhere, else anywhere."""
        fitting = [{f.length for f in found if f.fits} for found in self.lengths.values()]
        if not fitting:
            return None
        everywhere = set.intersection(*fitting)
        candidates = everywhere or set.union(*fitting)
        return main_length(sorted(candidates)) if candidates else None

    def rows(self, at: int | None) -> list[Row]:
        """What was found, with hot spots at a length, and decoding."""
        decoding = self._decoding()
        return [self._row(candidate, at, decoding) for candidate in self.candidates]

    def _row(
        self, candidate: Candidate, at: int | None, decoding: Mapping[str, list[Decoding]]
    ) -> Row:
        label = candidate.label
        subject = self.subjects.get(label)
        lengths = self.lengths.get(label, [])
        return Row(
            attention=candidate.name,
            causal=candidate.is_causal,
            options=_plain_options(candidate),
            parity=self.parity[label],
            parameters=None if subject is None else self._parameters(subject),
            lengths=lengths,
            growth=None if subject is None else growth_of(lengths, self.measures.steady),
            hot_spots=None if subject is None else self._hot_spots(subject, lengths, at),
            cacheable=attention_row(candidate.name).cacheable,
            decoding=decoding.get(label, []),
        )

    def _parameters(self, subject: Subject) -> Parameters:
        count = count_parameters(subject.model)
        candidate = subject.candidate
        # Of the baseline by its formula, so that it need not have passed its own parity.
        base = next(c for c in self.candidates if c.name == self.measures.baseline)
        return Parameters(
            total=count.total,
            attention=count.attention,
            generator=count.generator,
            extra=candidate.stack.parameters() - base.stack.parameters(),
        )

    def _hot_spots(
        self, subject: Subject, lengths: Sequence[Length], at: int | None
    ) -> HotSpots | None:
        figures = next((found for found in lengths if found.length == at), None)
        if figures is None or figures.step is None:
            return None
        self.tell(f"where the time goes: {subject.candidate.label}")
        n_steps = round(WATCHED_SECONDS / figures.step.step.wall.median)
        x_BND = subject.tokens(figures.length)
        return find_hot_spots(subject, x_BND, max(1, min(MOST_WATCHED, n_steps)))

    def _decoding(self) -> dict[str, list[Decoding]]:
        writers = {
            label: subject
            for label, subject in self.subjects.items()
            if subject.candidate.is_causal and attention_row(subject.candidate.name).cacheable
        }
        found: dict[str, list[Decoding]] = {label: [] for label in writers}
        contexts = sorted({f.length for label in writers for f in self.lengths[label] if f.fits})
        for context in contexts:
            fitting = [
                label
                for label in writers
                if any(f.length == context and f.fits for f in self.lengths[label])
            ]
            self.tell(f"decoding after {context:,} tokens: {', '.join(fitting)}")
            subjects = [writers[label] for label in fitting]
            device = subjects[0].number_format.device
            run = partial(
                time_decoding, subjects, context, self.measures.clock, self.measures.steady
            )
            times = out_of_memory_guard(run, device)
            if isinstance(times, OutOfMemory):
                break
            for label, time in zip(fitting, times, strict=True):
                found[label].append(time)
        return found


def _parity(candidate: Candidate, device: Any) -> Parity:
    found = parity.check_parity(
        candidate.name,
        options=candidate.config.attention.option_values(),
        is_causal=candidate.is_causal,
        device=device,
    )
    return Parity(
        passed=found.passed,
        largest_output_error=_finite(found.largest_output_error),
        largest_gradient_error=_finite(found.largest_gradient_error),
        tolerance=found.tolerance,
        worst_gradient=found.worst_gradient,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _plain_options(candidate: Candidate) -> dict[str, Any]:
    options = candidate.config.attention.options
    return {} if options is None else options.model_dump(mode="json")
