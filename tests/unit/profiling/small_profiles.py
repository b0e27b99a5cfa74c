"""Profiles of a stack that costs next to nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from damcha_core.profiling.clock import Instant
from damcha_core.profiling.effort import Effort
from damcha_core.profiling.plan import Candidate, plan_candidates
from damcha_core.profiling.profile import make_profile
from damcha_core.profiling.profile_record import ProfileRecord
from damcha_core.profiling.subject import Subject, build_subject
from damcha_core.train.precision import Precision

SETS = (
    *("model.d_model=16", "model.n_heads=2", "model.d_ff=24", "model.n_layers=2"),
    "attention.mlp_hidden=[8]",
)
CPU = torch.device("cpu")


def small_candidates(
    *names: str, modes: Sequence[bool] = (True, False), sets: Sequence[str] = ()
) -> tuple[Candidate, ...]:
    """Candidates of a small size."""
    generates = any(name.startswith("damcha") and "static" not in name for name in names)
    given = [setting for setting in SETS if generates or "mlp_hidden" not in setting]
    return plan_candidates(sets=[*given, *sets], attentions=names, modes=modes)


def small_subject(name: str = "damcha", *, is_causal: bool = True) -> Subject:
    """A subject of a small size."""
    (candidate,) = small_candidates(name, modes=[is_causal])
    return build_subject(candidate, Precision("float32", CPU))


def small_profile(
    *names: str, lengths: Sequence[int] = (4, 8, 16), **options: Any
) -> ProfileRecord:
    """A whole profile of a small size, one round a length."""
    return make_profile(
        small_candidates(*names, **options),
        lengths,
        number_format=Precision("float32", CPU),
        n_threads=1,
        environment={"packages": {"torch": torch.__version__}, "python": "3", "git": None},
        effort=Effort(n_rounds=2, seconds=0.0),
    )


class CountedClock:
    """A clock that moves on by one second, three of them CPU time, each time it is read."""

    def __init__(self) -> None:
        self.n_reads = 0

    def __call__(self) -> Instant:
        self.n_reads += 1
        return Instant(wall=float(self.n_reads), cpu=3.0 * self.n_reads)
