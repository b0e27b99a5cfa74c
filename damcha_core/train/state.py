"""Where a run stands: everything but the tensors, in plain types."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from damcha_core.train.best import Best

ENDINGS = ("", "epochs", "max_steps", "patience")


@dataclass
class TrainState:
    """Position of a run.

    Attributes:
        step: optimiser steps tried so far, skipped ones included.
        skipped: steps that the float16 scaler skipped; the schedule does not count them.
        skipped_in_a_row: the current run of skipped steps.
        epoch: epochs finished, validation included.
        consumed: samples of the current epoch already trained on.
        best: best validation so far.
        ended: why the run is over, one of ENDINGS; empty while it is not.
    """

    step: int = 0
    skipped: int = 0
    skipped_in_a_row: int = 0
    epoch: int = 0
    consumed: int = 0
    best: Best = field(default_factory=Best)
    ended: str = ""

    @property
    def updates(self) -> int:
        """Steps that changed the weights."""
        return self.step - self.skipped

    def to_mapping(self) -> dict[str, Any]:
        """Plain types for JSON."""
        return asdict(self)

    @classmethod
    def from_mapping(cls, mapping: dict[str, Any]) -> TrainState:
        """The inverse of to_mapping.

        Raises:
            TypeError: keys are missing or unknown, or a value is of another type.
            ValueError: a value is out of its range.
        """
        state = cls(**{**mapping, "best": Best(**mapping["best"])})
        best = state.best
        counts = [state.step, state.skipped, state.skipped_in_a_row, state.epoch, state.consumed]
        for count in (*counts, best.step, best.waited):
            if type(count) is not int:
                raise TypeError(f"{count!r} where a whole number belongs")
            if count < 0:
                raise ValueError(f"{count} where a number of at least 0 belongs")
        if best.value is not None and type(best.value) is not float:
            raise TypeError(f"{best.value!r} where a score belongs")
        if best.loss is not None and type(best.loss) is not float:
            raise TypeError(f"{best.loss!r} where a loss belongs")
        if state.ended not in ENDINGS:
            raise ValueError(f"{state.ended!r} is no way for a run to end")
        return state
