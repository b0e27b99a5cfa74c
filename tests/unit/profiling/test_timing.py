"""Phases of a step under a clock that can be counted on."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from small_profiles import CountedClock, small_subject

from damcha_core.profiling.clock import CPU_TIME, WALL_TIME, Instant, device_clock, steady_clock
from damcha_core.profiling.profile_record import Range
from damcha_core.profiling.timing import (
    FEWEST_ROUNDS,
    MOST_STEPS,
    PHASES,
    STEP,
    StepTime,
    phase_spread,
    rounds_within,
    step_ratio,
    steps_of_a_turn,
    time_in_rounds,
    timed_steps,
)


def test_the_phases_of_a_step_are_timed_apart() -> None:
    subject, clock = small_subject("mha"), CountedClock()
    time = timed_steps(subject, subject.tokens(3), clock, 5)
    assert {phase: time.seconds(phase, WALL_TIME) for phase in PHASES} == dict.fromkeys(PHASES, 1.0)
    assert time.seconds(STEP, WALL_TIME) == 3.0
    assert time.seconds(STEP, CPU_TIME) == 9.0
    assert clock.n_reads == 4 * 5


def test_subjects_take_turns_after_a_warm_up() -> None:
    subjects = [small_subject("mha"), small_subject("damcha")]
    log: list[int] = []
    for number, subject in enumerate(subjects):
        forward = subject.forward

        def logged(x, number=number, forward=forward):
            log.append(number)
            return forward(x)

        subject.forward = logged  # type: ignore[method-assign]
    times = time_in_rounds(
        [(subject, subject.tokens(3)) for subject in subjects],
        clock=CountedClock(),
        steady=WALL_TIME,
        n_rounds=4,
        seconds=1000.0,
    )
    assert [len(of_one) for of_one in times] == [4, 4]
    assert log == [0, 0, 1, 1, *(0, 1), *(1, 0), *(1, 0), *(0, 1)]


def test_a_step_leaves_the_weights_as_they_are() -> None:
    subject = small_subject()
    before = {name: value.clone() for name, value in subject.model.state_dict().items()}
    for _ in range(20):
        subject.step(subject.tokens(5))
    for name, value in subject.model.state_dict().items():
        assert torch.allclose(value, before[name], rtol=0, atol=1e-9), name
    assert all(parameter.grad is None for parameter in subject.model.parameters())
    assert len(subject.optimizer.state) == len(list(subject.model.parameters()))


def test_turns_are_long_enough_and_rounds_stay_within_the_budget() -> None:
    assert steps_of_a_turn(10.0) == 1
    assert steps_of_a_turn(0.003) == 10
    assert steps_of_a_turn(0.0) == MOST_STEPS
    assert rounds_within(10.0, 1.0, 15) == 10
    assert rounds_within(10.0, 100.0, 15) == FEWEST_ROUNDS
    assert rounds_within(10.0, 100.0, 1) == 1
    assert rounds_within(10.0, 0.0, 15) == 15


def step_time(wall: float, cpu: float) -> StepTime:
    return StepTime(dict.fromkeys((*PHASES, STEP), Instant(wall, cpu)))


def test_ratios_are_of_the_clock_that_is_asked_for() -> None:
    own = [step_time(4.0, 3.0), step_time(40.0, 3.0)]
    base = [step_time(2.0, 1.0), step_time(2.0, 1.0)]
    assert step_ratio(own, base, CPU_TIME) == Range(median=3, p20=3, p80=3)
    assert step_ratio(own, base, WALL_TIME).median == 11
    assert phase_spread(own, "forward", WALL_TIME).median == 22


@pytest.mark.parametrize(
    ("device", "threads", "clock"),
    [("cpu", 1, CPU_TIME), ("cpu", 2, WALL_TIME), ("cuda", 1, WALL_TIME)],
)
def test_the_steady_clock(device: str, threads: int, clock: str) -> None:
    assert steady_clock(torch.device(device), threads) == clock


def test_a_coarse_clock_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    coarse = SimpleNamespace(resolution=0.015)
    monkeypatch.setattr("time.get_clock_info", lambda name: coarse)
    assert steady_clock(torch.device("cpu"), 1) == WALL_TIME


def test_the_clocks_of_a_cpu_do_not_run_backwards() -> None:
    clock = device_clock(torch.device("cpu"))
    first, second = clock(), clock()
    time = second.since(first)
    assert time.wall >= 0
    assert time.cpu >= 0
