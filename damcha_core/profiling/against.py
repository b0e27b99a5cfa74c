"""A profile beside an earlier one."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from damcha_core.profiling.profile_record import ClockName, ProfileRecord, Row


@dataclass(frozen=True)
class Change:
    """A step of one attention at one length, now and before.

    Attributes:
        label: such as "damcha causal".
        length: number of tokens.
        now: median seconds of a step.
        before: the same of the earlier profile.
        ratio: now by before.
        differs: whether the ranges that hold the middle three fifths of the measurements have no
            value in common; if they have, the difference may be noise.
        memory_ratio: peak memory now by before.
        flops_ratio: counted operations now by before.
    """

    label: str
    length: int
    now: float
    before: float
    ratio: float
    differs: bool
    memory_ratio: float
    flops_ratio: float


@dataclass(frozen=True)
class Comparison:
    """What has changed since an earlier profile.

    Attributes:
        clock: by which clock steps are compared.
        changes: of what both profiles have.
        circumstances: what else differs, such as the machine: then a ratio compares that too.
        missing: what one of them alone has, in words.
    """

    clock: ClockName
    changes: tuple[Change, ...]
    circumstances: tuple[str, ...]
    missing: tuple[str, ...]


def compare(now: ProfileRecord, before: ProfileRecord) -> Comparison:
    """Compare two profiles row by row.

    Args:
        now: the new one.
        before: the earlier one.
    """
    # Wall time is what both have in any case.
    clock: ClockName = now.clock if now.clock == before.clock else "wall time"
    changes: list[Change] = []
    missing: list[str] = []
    earlier = {row.label: row for row in before.rows}
    for row in now.rows:
        if row.label not in earlier:
            missing.append(f"{row.label}: not in the earlier profile")
            continue
        found, lost = _row_changes(row, earlier.pop(row.label), clock)
        changes += found
        missing += lost
    missing += [f"{label}: in the earlier profile alone" for label in earlier]
    return Comparison(clock, tuple(changes), tuple(circumstances(now, before)), tuple(missing))


def _row_changes(now: Row, before: Row, clock: ClockName) -> tuple[list[Change], list[str]]:
    changes, missing = [], []
    lengths = sorted({found.length for row in (now, before) for found in row.lengths})
    if not lengths:
        missing.append(f"{now.label}: measured in neither profile")
    for length in lengths:
        new, old = now.at(length), before.at(length)
        place = f"{now.label} at {length:,}"
        if new is None or old is None:
            where = "not in the earlier profile" if old is None else "in the earlier profile alone"
            missing.append(f"{place}: {where}")
        elif new.step is None or old.step is None:
            if new.step is not None or old.step is not None:
                when = "now" if new.step is None else "in the earlier profile"
                missing.append(f"{place}: out of memory {when}")
        else:
            times, earlier = new.step.step.by(clock), old.step.step.by(clock)
            changes.append(
                Change(
                    label=now.label,
                    length=length,
                    now=times.median,
                    before=earlier.median,
                    ratio=times.median / max(earlier.median, 1e-12),
                    differs=not times.overlaps(earlier),
                    memory_ratio=(new.peak_bytes or 0) / max(old.peak_bytes or 0, 1),
                    flops_ratio=(new.counted_flops or 0) / max(old.counted_flops or 0, 1),
                )
            )
    return changes, missing


def circumstances(now: ProfileRecord, before: ProfileRecord) -> list[str]:
    """What differs between two profiles beside the code, a line each."""
    pairs: list[tuple[str, object, object]] = []
    for name in ("device", "processor", "cores", "threads", "precision"):
        pairs.append((name, getattr(now.machine, name), getattr(before.machine, name)))
    for name in ("python", "platform"):
        pairs.append((name, now.environment.get(name), before.environment.get(name)))
    pairs.append(("torch", torch_version(now), torch_version(before)))
    for name, value in now.size.model_dump().items():
        pairs.append((name, value, before.size.model_dump()[name]))
    earlier = {row.label: row for row in before.rows}
    for row in now.rows:
        other = earlier.get(row.label)
        if other is not None:
            for option in sorted({*row.options, *other.options}):
                pairs.append(
                    (f"{row.label}, {option}", row.options.get(option), other.options.get(option))
                )
    return [f"{name}: {new} now, {old} before" for name, new, old in pairs if new != old]


def torch_version(profile: ProfileRecord) -> object:
    """The version of torch that a profile was made with."""
    packages = profile.environment.get("packages")
    return packages.get("torch") if isinstance(packages, dict) else None


def plain_comparison(comparison: Comparison) -> dict[str, Any]:
    """A comparison in plain types, as `--json` prints it."""
    return {
        "clock": comparison.clock,
        "changes": [asdict(change) for change in comparison.changes],
        "circumstances": list(comparison.circumstances),
        "missing": list(comparison.missing),
    }
