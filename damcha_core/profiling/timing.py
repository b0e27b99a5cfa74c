"""Times of the phases of training steps, measured in rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from damcha_core.profiling.clock import CPU_TIME, Clock, Instant
from damcha_core.profiling.profile_record import ClockName, Range
from damcha_core.profiling.rounds import in_rounds
from damcha_core.profiling.spread import paired_ratios, spread
from damcha_core.profiling.subject import Subject

PHASES = ("forward", "backward", "optimizer")
STEP = "step"
TURN_SECONDS = 0.03
"""A turn repeats its step until it takes about this long: shorter ones are mostly noise."""
MOST_STEPS = 64
FEWEST_ROUNDS = 3


@dataclass(frozen=True)
class StepTime:
    """Seconds a phase takes in one step, the mean over a turn.

    Attributes:
        phases: for each of PHASES, and STEP, both clocks.
    """

    phases: dict[str, Instant]

    def seconds(self, phase: str, clock: ClockName) -> float:
        """Of one phase by one clock."""
        instant = self.phases[phase]
        return instant.cpu if clock == CPU_TIME else instant.wall


def timed_steps(subject: Subject, x_BND: Tensor, clock: Clock, n_steps: int) -> StepTime:
    """Run some training steps and time their phases.

    Args:
        subject: what trains.
        x_BND: tokens.
        clock: of the device.
        n_steps: at least 1.
    """
    totals = dict.fromkeys((*PHASES, STEP), Instant(0.0, 0.0))
    for _ in range(n_steps):
        started = clock()
        loss = subject.forward(x_BND)
        forwarded = clock()
        subject.backward(loss)
        backwarded = clock()
        subject.update()
        ended = clock()
        for phase, time in zip(
            (*PHASES, STEP),
            (
                forwarded.since(started),
                backwarded.since(forwarded),
                ended.since(backwarded),
                ended.since(started),
            ),
            strict=True,
        ):
            total = totals[phase]
            totals[phase] = Instant(total.wall + time.wall, total.cpu + time.cpu)
    return StepTime({p: Instant(t.wall / n_steps, t.cpu / n_steps) for p, t in totals.items()})


def steps_of_a_turn(step_seconds: float) -> int:
    """How many steps make a turn long enough to be measured."""
    return max(1, min(MOST_STEPS, round(TURN_SECONDS / max(step_seconds, 1e-9))))


def rounds_within(seconds: float, round_seconds: float, most: int) -> int:
    """How many rounds fit a budget: never fewer than FEWEST_ROUNDS, unless `most` is."""
    fitting = int(seconds / max(round_seconds, 1e-9))
    return min(most, max(FEWEST_ROUNDS, fitting))


def time_in_rounds(
    subjects: Sequence[tuple[Subject, Tensor]],
    *,
    clock: Clock,
    steady: ClockName,
    n_rounds: int,
    seconds: float,
) -> list[list[StepTime]]:
    """Time the steps of several subjects in turns.

    Args:
        subjects: each with its tokens.
        clock: of the device.
        steady: the clock that the budget is of, so that a busy machine gets as many rounds.
        n_rounds: most rounds.
        seconds: about how long all rounds may take.

    Returns:
        For each subject its time in every round.
    """
    # The first step of a shape pays for what is only done once, the second one tells its time.
    turns: list[Callable[[], StepTime]] = []
    expected = 0.0
    for subject, x_BND in subjects:
        timed_steps(subject, x_BND, clock, 1)
        step_seconds = timed_steps(subject, x_BND, clock, 1).seconds(STEP, steady)
        n_steps = steps_of_a_turn(step_seconds)
        expected += step_seconds * n_steps
        turns.append(_turn(subject, x_BND, clock, n_steps))
    return in_rounds(turns, rounds_within(seconds, expected, n_rounds))


def _turn(subject: Subject, x_BND: Tensor, clock: Clock, n_steps: int) -> Callable[[], StepTime]:
    return lambda: timed_steps(subject, x_BND, clock, n_steps)


def phase_spread(times: Sequence[StepTime], phase: str, clock: ClockName) -> Range:
    """The spread of a phase over the rounds, in seconds."""
    return spread([time.seconds(phase, clock) for time in times])


def step_ratio(times: Sequence[StepTime], base: Sequence[StepTime], clock: ClockName) -> Range:
    """How many times longer a step takes than the base's in the same round."""
    return paired_ratios(
        [time.seconds(STEP, clock) for time in times],
        [time.seconds(STEP, clock) for time in base],
    )
