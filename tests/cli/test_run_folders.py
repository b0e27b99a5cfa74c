"""Where `damcha train` puts a run, and where it refuses to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import SMALL, damcha

SHORT = (*SMALL, "--epochs", 1, "--set", "train.max_steps=1")


def names() -> list[str]:
    return sorted(path.name for path in Path("runs").iterdir())


def test_a_run_without_a_name_gets_the_next_free_number() -> None:
    for _ in range(2):
        damcha("train", *SHORT).done()
    damcha("train", *SHORT, "--attention", "damcha-psd", "--seed", 5).done()
    assert names() == ["digits-damcha-psd-s5", "digits-damcha-s0", "digits-damcha-s0-2"]


def test_a_name_is_a_folder_in_runs_and_out_is_the_folder_itself() -> None:
    damcha("train", *SHORT, "--name", "first").done()
    damcha("train", *SHORT, "--out", "deep/er/one").done()
    assert names() == ["first"]
    for folder in (Path("runs/first"), Path("deep/er/one")):
        files = {path.name for path in folder.iterdir()}
        assert {"run.toml", "result.json", "metrics.jsonl", "environment.json"} <= files
        assert json.loads((folder / "result.json").read_text())["run"] == folder.name


def test_a_folder_that_holds_a_run_is_refused_and_kept() -> None:
    damcha("train", *SHORT, "--name", "first").done()
    before = sorted((p, p.stat().st_mtime_ns) for p in Path("runs").rglob("*"))
    for place in (("--name", "first"), ("--out", "runs/first")):
        damcha("train", *SHORT, *place).refused(2, "runs/first", "--resume runs/first")
    assert sorted((p, p.stat().st_mtime_ns) for p in Path("runs").rglob("*")) == before


@pytest.mark.parametrize("out", ["file", "file/x", "/proc/x", "/dev/null"])
def test_a_place_that_cannot_be_written_is_found_before_training(out, monkeypatch) -> None:
    Path("file").write_text("mine", encoding="utf-8")

    def no_data(*_arguments: object, **_options: object) -> None:
        raise AssertionError("the data were read before the folder was checked")

    monkeypatch.setattr("damcha_core.train.run.build_task", no_data)
    damcha("train", *SHORT, "--out", out).refused(2, out, most_lines=1)
    assert Path("file").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    "name", ["with space", "ü é ß", "emoji 😀", "[bold]x[", "#1, 'quoted' \"so\"", "--dash", "100%"]
)
def test_odd_names_work_in_every_command(name) -> None:
    folder = f"./{name}/run"
    answer = damcha("train", *SHORT, f"--out={folder}").done()
    assert f"into {Path(folder)}" in answer.err
    assert f"run              {Path(folder)}\n" in answer.out
    assert f"{Path(folder)}\n" in damcha("eval", folder).done().out
    grid = f"./{name}/grid.png"
    assert f"{Path(grid)}\n" in damcha("reconstruct", folder, "--out", grid).done().out
    assert Path(grid).is_file()
    assert "is complete" in damcha("train", "--resume", folder).done().err


def test_a_folder_that_is_no_text_is_refused_with_the_reason() -> None:
    damcha("train", *SHORT, "--out", "bytes \udcff").refused(2, "--out", "UTF-8")


def test_nor_can_a_run_be_read_from_one(own_run) -> None:
    odd = own_run.rename(own_run.with_name("bytes \udcff"))
    damcha("eval", odd).refused(4, "UTF-8")
