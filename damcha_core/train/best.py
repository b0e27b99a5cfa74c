"""The best score so far, and when to stop waiting for a better one."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class Best:
    """Best main metric on the validation split; part of the state that resuming restores.

    Attributes:
        value: the best value so far; None before the first validation.
        loss: validation loss with it; it decides between equal values.
        step: the step it was reached at.
        waited: validations since then without a better value.
    """

    value: float | None = None
    step: int = 0
    waited: int = 0
    loss: float | None = None

    def update(
        self, value: float | None, step: int, *, better: str, loss: float | None = None
    ) -> bool:
        """Take in a validation.

        Args:
            value: the new value; None, nan and the infinities never count as better.
            step: the step it belongs to.
            better: "lower" or "higher".
            loss: validation loss: of equal values (such as a BLEU of 0 at the start) the one with
                the lower loss is the better one, and the waiting goes on.

        Returns:
            True if it is the best so far.
        """
        loss = loss if loss is not None and math.isfinite(loss) else None
        improved = tied = False
        if value is not None and math.isfinite(value):
            if self.value is None:
                improved = True
            elif value == self.value:
                tied = loss is not None and self.loss is not None and loss < self.loss
            else:
                improved = (value < self.value) == (better == "lower")
        self.waited = 0 if improved else self.waited + 1
        if improved or tied:
            self.value, self.step, self.loss = value, step, loss
        return improved or tied
