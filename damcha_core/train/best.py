"""The best score so far, and when to stop waiting for a better one."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class Best:
    """Best main metric on the validation split; part of the state that resuming restores.

    Attributes:
        value: the best value so far; None before the first validation.
        step: the step it was reached at.
        waited: validations since then without a better value.
    """

    value: float | None = None
    step: int = 0
    waited: int = 0

    def update(self, value: float | None, step: int, *, better: str) -> bool:
        """Take in a validation.

        Args:
            value: the new value; None, nan and the infinities never count as better.
            step: the step it belongs to.
            better: "lower" or "higher".

        Returns:
            True if it is the best so far.
        """
        if value is None or not math.isfinite(value):
            improved = False
        elif self.value is None:
            improved = True
        else:
            improved = value < self.value if better == "lower" else value > self.value
        if improved:
            self.value, self.step, self.waited = value, step, 0
        else:
            self.waited += 1
        return improved
