"""Time of a token when a stack writes one after the other with its cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from damcha_core.attention.cache import StackCache
from damcha_core.profiling.clock import CPU_TIME, Clock
from damcha_core.profiling.profile_record import ClockName, Decoding, Times
from damcha_core.profiling.rounds import in_rounds
from damcha_core.profiling.spans import has_metric, wrapped_metrics
from damcha_core.profiling.spread import spread
from damcha_core.profiling.subject import Subject

ROUNDS = 8
STEPS_OF_A_TURN = 2
METRIC_STEPS = 8


class Decoder:
    """A stack that has read a context and writes on.

    Args:
        subject: a causal one whose attention keeps a cache.
        context: number of tokens to read, at least 1.
    """

    def __init__(self, subject: Subject, context: int) -> None:
        self.subject = subject
        self.cache: StackCache = subject.model.new_cache()
        self.next_B1D: Tensor = subject.tokens(1)
        self.step(subject.tokens(context))

    @torch.no_grad()
    def step(self, x_BMD: Tensor) -> None:
        """Read tokens."""
        with self.subject.number_format.autocast():
            self.subject.model(x_BMD, cache=self.cache)

    def turn(self, clock: Clock) -> Callable[[], tuple[float, float]]:
        """A measurement: wall and CPU seconds of a step, the mean of a few."""

        def run() -> tuple[float, float]:
            started = clock()
            for _ in range(STEPS_OF_A_TURN):
                self.step(self.next_B1D)
            time = clock().since(started)
            return time.wall / STEPS_OF_A_TURN, time.cpu / STEPS_OF_A_TURN

        return run

    def metric_seconds(self, clock: Clock, steady: ClockName) -> float | None:
        """What of a step its metrics take, the mean of a few steps; None: there are none."""
        if not has_metric(self.subject.model):
            return None
        taken = [0.0]

        def timed(method: Callable[..., Any]) -> Callable[..., Any]:
            def run(*arguments: Any, **options: Any) -> Any:
                started = clock()
                result = method(*arguments, **options)
                time = clock().since(started)
                taken[0] += time.cpu if steady == CPU_TIME else time.wall
                return result

            return run

        with wrapped_metrics(self.subject.model, self.cache, timed):
            for _ in range(METRIC_STEPS):
                self.step(self.next_B1D)
        return taken[0] / METRIC_STEPS


def time_decoding(
    subjects: Sequence[Subject], context: int, clock: Clock, steady: ClockName
) -> list[Decoding]:
    """Time single tokens of several subjects in turns, after the same context.

    Args:
        subjects: causal ones whose attentions keep caches.
        context: number of tokens before.
        clock: of the device.
        steady: the clock that the metric's part is taken from.
    """
    decoders = [Decoder(subject, context) for subject in subjects]
    turns = [decoder.turn(clock) for decoder in decoders]
    in_rounds(turns, 1)
    results = in_rounds(turns, ROUNDS)
    return [
        Decoding(
            context=context,
            step=Times(
                wall=spread([wall for wall, _ in times]), cpu=spread([cpu for _, cpu in times])
            ),
            metric=decoder.metric_seconds(clock, steady),
        )
        for decoder, times in zip(decoders, results, strict=True)
    ]
