"""How thorough a profile is."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_ROUNDS = 15
DEFAULT_SECONDS = 10.0


@dataclass(frozen=True)
class Effort:
    """Rounds of a profile.

    Attributes:
        n_rounds: most rounds at a length, at least 1.
        seconds: about how long the rounds of a length may take, by the clock that ratios are taken
            from; a few are made in any case.
    """

    n_rounds: int = DEFAULT_ROUNDS
    seconds: float = DEFAULT_SECONDS
