"""`damcha profile`: what it shows, what it writes, and what it refuses before measuring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import damcha, python

from damcha_core.errors import DiskError
from damcha_core.profiling import memory_limits, parity
from damcha_core.profiling import profile_file as files
from damcha_core.profiling.plan import DEFAULT_ATTENTIONS, DEFAULT_BATCH
from damcha_core.profiling.profile_record import SCHEMA

SIZE = (
    *("--device", "cpu", "--set", "model.d_model=16", "--set", "model.n_heads=2"),
    *("--set", "model.d_ff=16", "--set", "model.n_layers=1"),
)
FAST = ("--lengths", "4,8", "--repeats", 2, "--seconds", 0)
SMALL = (*SIZE, "--set", "attention.mlp_hidden=[8]", *FAST)


@pytest.fixture(scope="module")
def profile_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile of mha and damcha; only to be read."""
    file = tmp_path_factory.mktemp("profiles") / "profile.json"
    damcha("profile", *SMALL, "--out", file).done()
    return file


def test_the_report_has_every_part(profile_file: Path) -> None:
    answer = damcha("profile", *SMALL).done()
    for words in (
        "device ",
        "threads        1 of ",
        "measured peak",
        "parity: outputs and gradients of 4 of 4 layers",
        "over mha",
        "a training step on 8 tokens: median [p20-p80]",
        "1.00 [1.00-1.00]",
        "GFLOP/s",
        "by length",
        "exponent (R2)",
        "damcha causal: the metric alone",
        "decoding with the cache",
        "CPU time of this process",
    ):
        assert words in answer.out, words
    for row in ("mha causal", "mha whole", "damcha causal", "damcha whole"):
        assert answer.out.count(f"\n{row} ") >= 5
    assert "length 8: mha causal, mha whole, damcha causal, damcha whole" in answer.err


def test_json_is_the_record_and_nothing_else(profile_file: Path) -> None:
    record = damcha("profile", *SMALL, "--no-causal", "--json").json()
    assert (record["kind"], record["schema"]) == ("damcha profile", SCHEMA)
    assert [(row["attention"], row["causal"]) for row in record["rows"]] == [
        ("mha", False),
        ("damcha", False),
    ]
    assert record["environment"]["threads"] == record["machine"]["threads"] == 1
    stored = json.loads(profile_file.read_text(encoding="utf-8"))
    assert set(stored) == set(record)
    assert len(stored["rows"]) == 4


def test_either_order_of_names_measures_the_same(profile_file: Path) -> None:
    stored = json.loads(profile_file.read_text(encoding="utf-8"))
    other = damcha("profile", *SMALL, "--attention", "damcha,mha", "--json").json()
    assert other["baseline"] == stored["baseline"] == "mha"

    def counts(record: dict[str, Any]) -> dict[Any, Any]:
        return {
            (row["attention"], row["causal"], found["length"]): (
                found["peak_bytes"],
                found["counted_flops"],
                found["moved_bytes"],
            )
            for row in record["rows"]
            for found in row["lengths"]
        }

    assert counts(other) == counts(stored)


def test_threads_that_are_asked_for_are_used_and_put_back() -> None:
    before = torch.get_num_threads()
    record = damcha("profile", *SIZE, *FAST, "--attention", "mha", "--threads", 2, "--json").json()
    assert record["machine"]["threads"] == 2
    assert record["clock"] == "wall time"
    assert torch.get_num_threads() == before


def test_against_an_earlier_profile(profile_file: Path) -> None:
    answer = damcha("profile", *SMALL, "--against", profile_file).done()
    assert "against the earlier profile, by cpu time" in answer.out
    assert "NOT THE SAME" not in answer.out
    assert answer.out.count("damcha whole at ") == 2
    other = damcha(
        *("profile", *SMALL, "--attention", "damcha,gated", "--causal", "--batch-size", 2),
        *("--against", profile_file),
    ).done()
    assert "NOT THE SAME: batch_size: 2 now, 4 before" in other.out
    assert "gated causal: not in the earlier profile" in other.out
    assert "mha whole: in the earlier profile alone" in other.out
    record = damcha("profile", *SMALL, "--against", profile_file, "--json").json()
    assert len(record["against"]["changes"]) == 8


def test_a_record_that_json_printed_is_read_too(profile_file: Path, tmp_path: Path) -> None:
    printed = damcha("profile", *SMALL, "--against", profile_file, "--json").done().out
    (tmp_path / "printed.json").write_text(printed, encoding="utf-8")
    damcha("profile", *SMALL, "--against", "printed.json").done()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--attention", "mha-matched"), ("mha-matched is a control", "mha")),
        (("--attention", "mha,mha-flops"), ("mha-flops is a control",)),
        (("--attention", "dmcha"), ("did you mean dcmha?",)),
        (("--attention", "mha,,damcha"), ("a name is empty",)),
        (("--lengths", "0"), ("--lengths '0'",)),
        (("--lengths", "-64"), ("--lengths '-64'",)),
        (("--lengths", "64,sixty"), ("--lengths 'sixty'",)),
        (("--lengths", "64,64"), ("names 64 twice",)),
        (("--lengths", "9" * 40), ("1,048,576",)),
        (("--set", "model.n_heads=7"), ("model.n_heads = 7",)),
        (("--set", "attention.gate=headwise"), ("option of gated",)),
        (("--config", "none.toml"), ("none.toml",)),
        (("--precision", "float8"), ("float8", "bfloat16")),
        (("--precision", "float16", "--device", "cpu"), ("float16 needs a CUDA device",)),
        (("--batch-size", "0"), ("--batch-size",)),
        (("--against", "none.json"), ("none.json cannot be read",)),
        (("--against", "."), ("cannot be read",)),
        (("--out", "none/profile.json"), ("there is no folder none",)),
    ],
)
def test_mistakes_are_refused_on_one_line(arguments: tuple[str, ...], words: Any) -> None:
    damcha("profile", *arguments).refused(2, *words, most_lines=1)
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(("device", "words"), [("cuda", "0 CUDA devices"), ("mps", "not avail")])
def test_a_device_that_is_not_there_is_refused(device, words, monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    damcha("profile", "--device", device).refused(2, f"--device {device}", words, most_lines=1)


def test_a_file_that_is_no_profile_is_neither_read_nor_replaced() -> None:
    note = Path("notes.md")
    note.write_text("keep me", encoding="utf-8")
    damcha("profile", *SMALL, "--against", note).refused(2, "is no profile", most_lines=1)
    damcha("profile", *SMALL, "--out", note).refused(2, "is no profile", most_lines=1)
    assert note.read_text(encoding="utf-8") == "keep me"


def test_out_of_memory_lengths_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limits, "available_memory", lambda device: 300_000)
    arguments = ("--attention", "mha", "--causal", *SIZE, "--repeats", 1, "--seconds", 0)
    answer = damcha("profile", *arguments, "--lengths", "4,8,90000").done()
    assert "out of memory" in answer.out
    assert "mha causal at 90,000: not run: it would need about" in answer.out
    assert "a training step on 8 tokens" in answer.out


def test_a_profile_without_a_length_that_fits_ends_with_six(monkeypatch) -> None:
    monkeypatch.setattr(memory_limits, "available_memory", lambda device: 300_000)
    arguments = ("--attention", "mha", "--causal", *SIZE, "--repeats", 1, "--seconds", 0)
    answer = damcha("profile", *arguments, "--lengths", "90000")
    assert (answer.code, answer.bug) == (6, None)
    assert "error: every length is out of memory" in answer.err
    assert "parameters" in answer.out


def test_what_was_measured_is_shown_where_its_file_cannot_be_written(monkeypatch) -> None:
    def full(*_: object) -> None:
        raise DiskError("profile.json cannot be written: No space left on device")

    monkeypatch.setattr(files, "write_profile", full)
    answer = damcha("profile", *SMALL, "--out", "profile.json")
    assert answer.code == 7
    assert "No space left" in answer.err
    assert "mha causal" in answer.out


def test_a_failed_parity_shows_no_speed_and_ends_with_one(monkeypatch) -> None:
    real = parity.check_parity

    def failing(name: str, **options: Any) -> parity.Parity:
        found = real(name, **options)
        if name == "mha":
            return found
        return parity.Parity(False, 0.25, 0.5, found.tolerance, "input")

    monkeypatch.setattr(parity, "check_parity", failing)
    answer = damcha("profile", *SMALL)
    assert (answer.code, answer.bug) == (1, None)
    assert "PARITY FAILED: damcha causal differs from its reference" in answer.out
    assert "parity: outputs and gradients of 2 of 4 layers" in answer.out
    assert "\nmha causal " in answer.out
    assert "\ndamcha causal " not in answer.out
    monkeypatch.setattr(
        parity, "check_parity", lambda name, **options: parity.Parity(False, 1, 1, 0.1, "input")
    )
    answer = damcha("profile", *SMALL, "--json")
    assert answer.code == 1
    assert all(row["lengths"] == [] for row in json.loads(answer.out)["rows"])


def test_the_help_states_the_defaults() -> None:
    words = " ".join(damcha("profile", "--help").done().out.split())
    assert f"default {','.join(DEFAULT_ATTENTIONS)}" in words
    assert f"default {DEFAULT_BATCH}" in words
    for option in (
        *("--attention", "--lengths", "--causal", "--no-causal", "--config", "--set", "--device"),
        *("--batch-size", "--threads", "--precision", "--repeats", "--seconds", "--out"),
        *("--against", "--json"),
    ):
        assert option in words


def test_nothing_but_progress_reaches_stderr() -> None:
    """torch's profiler has a voice of its own, which is heard in a real process alone."""
    arguments = ("--attention", "mha", "--causal", *SIZE, *FAST)
    answer = python("-m", "damcha_cli", "profile", *arguments).done()
    starts = ("measuring", "comparing", "length", "decoding", "where")
    assert all(line.startswith(starts) for line in answer.err.splitlines()), answer.err
