"""A profile on disk: whole or not at all, read back the same, and nothing else is taken for one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from small_profiles import small_profile

from damcha_core.errors import DiskError, UsageError
from damcha_core.profiling import profile_file
from damcha_core.profiling.profile_file import check_place, read_profile, write_profile
from damcha_core.profiling.profile_record import SCHEMA, ProfileRecord


@pytest.fixture(scope="module")
def record() -> ProfileRecord:
    return small_profile("mha", "damcha", lengths=[4, 8])


def test_what_is_written_is_read_back(record: ProfileRecord, tmp_path: Path) -> None:
    file = tmp_path / "é profile.json"
    write_profile(file, record)
    assert read_profile(file) == record
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    text = file.read_text(encoding="utf-8")
    assert "NaN" not in text
    assert json.loads(text)["schema"] == SCHEMA
    write_profile(file, record)
    check_place(file)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"\xff\xfe", "UTF-8"),
        (b"[1]", "damcha profile"),
        (b'{"kind": "cake"}', "damcha profile"),
        (b'{"kind": "damcha profile", "schema": 99}', "later version"),
        (b'{"kind": "damcha profile", "schema": 1}', "environment"),
        (b'{"kind": "damcha profile", "schema": true}', "schema"),
    ],
)
def test_other_files_are_refused_on_one_line(content: bytes, words: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=words) as refusal:
        read_profile(file)
    assert len(str(refusal.value).splitlines()) == 1
    with pytest.raises(UsageError, match="no profile"):
        check_place(file)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda plain: plain["rows"][0].update(causal="yes"), "rows.0.causal"),
        (lambda plain: plain["rows"][0]["lengths"][0].update(length=0), "length"),
        (lambda plain: plain["machine"].update(matmul_flops=-1.0), "machine.matmul_flops"),
        (lambda plain: plain.pop("rows"), "rows"),
    ],
)
def test_a_damaged_profile_is_refused_by_its_place(
    change: Any, place: str, record: ProfileRecord, tmp_path: Path
) -> None:
    plain = record.plain()
    change(plain)
    file = tmp_path / "profile.json"
    file.write_text(json.dumps(plain))
    with pytest.raises(UsageError, match=place):
        read_profile(file)


def read_only(*_: object) -> None:
    raise OSError(30, "Read-only file system")


def test_places_that_cannot_be_read_or_written(tmp_path: Path, monkeypatch: Any) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_profile(tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_profile(tmp_path / "none")
    with pytest.raises(UsageError, match="is a folder"):
        check_place(tmp_path)
    with pytest.raises(UsageError, match="no folder"):
        check_place(tmp_path / "none" / "file")
    with pytest.raises(UsageError, match="File name too long"):
        check_place(tmp_path / ("a" * 300))
    with monkeypatch.context() as patched:
        patched.setattr(Path, "touch", read_only)
        with pytest.raises(UsageError, match="cannot be written: Read-only"):
            check_place(tmp_path / "profile.json")
    large = tmp_path / "large"
    large.write_text("{}")
    monkeypatch.setattr(profile_file, "LARGEST_FILE", 1)
    with pytest.raises(UsageError, match="larger than any"):
        read_profile(large)


def test_a_name_of_the_longest_kind_can_be_written(record: ProfileRecord, tmp_path: Path) -> None:
    file = tmp_path / ("a" * 250 + ".json")
    check_place(file)
    assert list(tmp_path.iterdir()) == []
    write_profile(file, record)
    assert list(tmp_path.iterdir()) == [file]


def test_a_full_disk_leaves_the_old_profile(
    record: ProfileRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "profile.json"
    write_profile(file, record)
    before = file.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(DiskError, match="cannot write"):
        write_profile(file, record)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
