"""metrics.jsonl: what resuming keeps of it, and what a crash may leave in it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from damcha_core.train.metrics_log import MetricsLog, read_metrics

RECORDS = [
    {"step": 1, "split": "train", "loss": 0.1},
    {"step": 2, "split": "train", "loss": 0.2},
    {"step": 2, "split": "valid", "loss": 0.3},
    {"step": 3, "split": "train", "loss": 0.4},
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log with three steps and a validation after the second."""
    path = tmp_path / "metrics.jsonl"
    with MetricsLog(path) as log:
        for record in RECORDS:
            log.write(record)
        log.sync()
    return path


def test_a_record_is_one_line_and_readable_at_once(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == RECORDS == list(read_metrics(path))
    with MetricsLog(path, resume_step=3) as log:
        log.write({"step": 4, "split": "train"})
        assert len(list(read_metrics(path))) == 5


@pytest.mark.parametrize(("step", "kept"), [(0, 0), (1, 1), (2, 3), (3, 4), (9, 4)])
def test_resuming_cuts_what_came_after_the_checkpoint(path, step, kept):
    with MetricsLog(path, resume_step=step):
        pass
    assert list(read_metrics(path)) == RECORDS[:kept]


def test_a_validation_that_is_owed_is_cut_too(path):
    with MetricsLog(path, resume_step=2, validated=False):
        pass
    assert list(read_metrics(path)) == RECORDS[:2]


@pytest.mark.parametrize(
    "rest",
    [
        b'{"step": 4, "los',
        b'{"step": 4, "split": "tra\xc3',
        b"\x00\x00\x00\x00",
        b"[" * 100_000,
    ],
)
def test_a_broken_last_line_is_left_out_and_gone_after_resuming(path, rest):
    whole = path.read_bytes()
    path.write_bytes(whole + rest)
    assert list(read_metrics(path)) == RECORDS
    with MetricsLog(path, resume_step=3) as log:
        log.write({"step": 4, "split": "train"})
    assert path.read_bytes() == whole + b'{"step": 4, "split": "train"}\n'


def test_lines_that_are_no_records_are_left_out(path):
    path.write_bytes(b'[1]\n"x"\n{"loss": 1}\n{"step": "1"}\n\n' + path.read_bytes())
    assert list(read_metrics(path)) == RECORDS


def test_a_number_that_json_does_not_have_is_a_defect(path):
    with MetricsLog(path, resume_step=3) as log, pytest.raises(ValueError, match="JSON"):
        log.write({"step": 4, "loss": math.nan})
    assert list(read_metrics(path)) == RECORDS
