"""Two profiles side by side: what has changed, what may be noise, and what cannot be compared."""

from __future__ import annotations

from typing import Any

import pytest
from small_profiles import small_profile

from damcha_core.profiling.against import compare, plain_comparison
from damcha_core.profiling.profile_record import ProfileRecord


@pytest.fixture(scope="module")
def record() -> ProfileRecord:
    return small_profile("mha", "damcha", lengths=[4, 8])


def changed(record: ProfileRecord, change: Any) -> ProfileRecord:
    plain = record.plain()
    change(plain)
    return ProfileRecord.model_validate_json(__import__("json").dumps(plain))


def slower(factor: float) -> Any:
    """Times of one row and length multiplied, their ranges made narrow."""

    def change(plain: dict[str, Any]) -> None:
        times = plain["rows"][2]["lengths"][1]["step"]["step"]
        for clock in ("wall", "cpu"):
            median = times[clock]["median"] * factor
            times[clock] = {"median": median, "p20": median * 0.999, "p80": median * 1.001}

    return change


def test_a_profile_equals_itself(record: ProfileRecord) -> None:
    found = compare(record, record)
    assert len(found.changes) == 8
    assert all(change.ratio == 1 for change in found.changes)
    assert not any(change.differs for change in found.changes)
    assert all(change.memory_ratio == change.flops_ratio == 1 for change in found.changes)
    assert found.circumstances == found.missing == ()


@pytest.mark.parametrize(("factor", "differs"), [(3.0, True), (0.25, True), (1.0, False)])
def test_a_change_is_marked_where_the_ranges_are_apart(
    factor: float, differs: bool, record: ProfileRecord
) -> None:
    before = changed(record, slower(1.0))
    found = compare(changed(record, slower(factor)), before)
    (change,) = [c for c in found.changes if (c.label, c.length) == ("damcha causal", 8)]
    assert change.ratio == pytest.approx(factor)
    assert change.differs is differs
    assert sum(c.differs for c in found.changes) == differs


def test_what_one_of_them_lacks_is_said(record: ProfileRecord) -> None:
    def fewer(plain: dict[str, Any]) -> None:
        del plain["rows"][3]
        del plain["rows"][0]["lengths"][0]
        plain["rows"][1]["lengths"][1].update(fits=False, step=None)

    less = changed(record, fewer)
    found = compare(less, record)
    assert set(found.missing) == {
        "mha causal at 4: in the earlier profile alone",
        "mha whole at 8: out of memory now",
        "damcha whole: in the earlier profile alone",
    }
    assert set(compare(record, less).missing) == {
        "mha causal at 4: not in the earlier profile",
        "mha whole at 8: out of memory in the earlier profile",
        "damcha whole: not in the earlier profile",
    }
    assert len(found.changes) == 4


def test_other_circumstances_are_said(record: ProfileRecord) -> None:
    def elsewhere(plain: dict[str, Any]) -> None:
        plain["machine"].update(processor="another", threads=2)
        plain["environment"]["packages"]["torch"] = "1.0"
        plain["size"]["d_ff"] = 7
        plain["rows"][2]["options"]["rank"] = 3
        plain["clock"] = "wall time"

    found = compare(record, changed(record, elsewhere))
    told = "\n".join(found.circumstances)
    for words in ("processor: ", "threads: 1 now, 2 before", "torch: ", "d_ff: 24 now, 7 before"):
        assert words in told
    assert "damcha causal, rank: 0 now, 3 before" in told
    assert len(found.circumstances) == 5
    assert found.clock == "wall time"


def test_a_comparison_in_plain_types(record: ProfileRecord) -> None:
    plain = plain_comparison(compare(record, record))
    assert set(plain) == {"clock", "changes", "circumstances", "missing"}
    assert plain["changes"][0]["label"] == "mha causal"
