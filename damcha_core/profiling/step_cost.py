"""What a training step costs whatever the clock says: memory, operations, traffic."""

from __future__ import annotations

import time
from dataclasses import dataclass

from torch import Tensor

from damcha_core.profiling.memory import measure_memory
from damcha_core.profiling.memory_forecast import PROBE_SECONDS, MemoryForecast
from damcha_core.profiling.memory_limits import OutOfMemory, out_of_memory_guard
from damcha_core.profiling.operations import counted_operations
from damcha_core.profiling.subject import Subject
from damcha_core.profiling.traffic import measure_traffic


@dataclass(frozen=True)
class StepCost:
    """Counts of one training step; the same in every run on the same device.

    Attributes:
        peak_bytes: most memory that tensors take at one time, all that belongs to the subject
            included.
        resident_bytes: what of it is there between two steps: weights, optimiser state, tokens.
        counted_flops: operations of the products of matrices that were run.
        moved_bytes: bytes that operators read and wrote.
    """

    peak_bytes: int
    resident_bytes: int
    counted_flops: int
    moved_bytes: int


def measure_cost(subject: Subject, x_BND: Tensor) -> StepCost:
    """Count one step, which is run once for all counts."""
    resident = subject.resident_bytes(x_BND)
    device = subject.number_format.device
    counts: dict[str, int] = {}

    def counted() -> None:
        counts["moved"] = measure_traffic(lambda: subject.step(x_BND))

    def followed() -> None:
        # Above the start, because on a GPU the start holds what belongs to the other subjects.
        counts["added"] = measure_memory(counted, device).added_bytes

    counts["flops"] = counted_operations(followed)
    return StepCost(
        peak_bytes=resident + counts["added"],
        resident_bytes=resident,
        counted_flops=counts["flops"],
        moved_bytes=counts["moved"],
    )


class CostMeter:
    """Counts steps of one subject at growing lengths without running out of memory.

    Args:
        subject: what is counted.
    """

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.forecast = MemoryForecast()
        self.too_long: OutOfMemory | None = None

    def measure(self, length: int) -> StepCost | OutOfMemory:
        """Count a step at a length, if it fits; lengths are to be measured in rising order.

        Shorter steps are run first, each of twice the length of the one before, until they tell
        what this one will need: a machine out of memory may end the program without a word.

        Args:
            length: number of tokens.
        """
        cost = self._told(length) or self._run(length)
        if isinstance(cost, OutOfMemory):
            self.too_long = cost
        return cost

    def _told(self, length: int) -> OutOfMemory | None:
        """Run shorter steps; the marker where they tell that this one does not fit."""
        while self.too_long is None:
            probe = self.forecast.next_probe(length)
            if probe is None:
                return None
            started = time.perf_counter()
            tried = self._run(probe)
            if isinstance(tried, OutOfMemory):
                self.too_long = tried
            elif time.perf_counter() - started > PROBE_SECONDS:
                return None
        # What a shorter one has no room for, this one has not either.
        return OutOfMemory(True, self._needed(length), self.too_long.available_bytes)

    def _run(self, length: int) -> StepCost | OutOfMemory:
        subject = self.subject
        cost = out_of_memory_guard(
            lambda: measure_cost(subject, subject.tokens(length)),
            subject.number_format.device,
            needed_bytes=self._needed(length),
        )
        if isinstance(cost, OutOfMemory):
            subject.optimizer.zero_grad(set_to_none=True)
        else:
            self.forecast.add(length, cost.peak_bytes)
        return cost

    def _needed(self, length: int) -> int:
        """Bytes beyond those that are in use; 0: not known."""
        # The tokens of the length itself belong to what has to be added.
        resident = self.subject.resident_bytes(self.subject.tokens(1, 1))
        return max(0, (self.forecast.predict(length) or 0) - resident)
