"""Text runs from files to scored texts: learnt, killed, resumed, moved, scored by batches."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from child_runs import train_watched, wait_for
from tiny_runs import Recorder, fingerprint, go_on, last_step, temporaries
from tiny_texts import SETTINGS, number_pairs, text_config, write_wmt

from damcha_core.decoding.search_settings import SearchSettings
from damcha_core.errors import CheckpointError, DataError
from damcha_core.evaluate.text.generation import Answer
from damcha_core.train.run import start
from damcha_core.train.trained_run import load_run

EVERY_STEP: dict[str, object] = {
    **SETTINGS,
    "attention.name": "damcha",
    "attention.init": "random",
    "attention.mlp_hidden": [8],
    "model.n_layers": 1,
    "train.save_every_steps": 1,
    "train.ema_decay": 0.9,
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Numbers in English and German."""
    root = tmp_path_factory.mktemp("corpus") / "données, test 1" / "äöü #2"
    write_wmt(root)
    return root


@pytest.fixture(scope="module")
def run(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two epochs that nothing disturbed."""
    out = tmp_path_factory.mktemp("undisturbed") / "Läufe, 1 #2"
    start(text_config(corpus, out), Recorder())
    return out


@pytest.fixture(scope="module")
def fluent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that knows its ten pairs by heart."""
    folder = tmp_path_factory.mktemp("fluent")
    write_wmt(folder / "data", n_train=10, n_valid=2, n_test=2)
    changes = {
        "train.epochs": 60,
        "model.dropout": 0.0,
        "train.label_smoothing": 0.0,
        "train.weight_decay": 0.0,
        "model.d_model": 32,
        "train.keep_last": 1,
    }
    start(text_config(folder / "data", folder / "run", **changes), Recorder())
    return folder / "run"


def test_a_run_holds_its_scores_texts_and_tokenizer(run: Path) -> None:
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    assert list(result["metrics"]) == ["bleu", "chrf", "ter", "perplexity"]
    assert result["metrics"]["bleu"]["n"] == 11
    low, high = result["metrics"]["bleu"]["interval"]
    assert low <= result["metrics"]["bleu"]["value"] <= high
    assert "tok:13a|smooth:exp|version:" in result["details"]["signatures"]["bleu"]
    assert len(result["details"]["data"]["sha256"]) == 64
    assert set(result["floors"]) == {"nearest_training_target", "source_itself"}
    kept = {path.name for path in (run / "samples").iterdir()}
    assert {"valid.hyp", "valid.ref", "valid.src", "valid.jsonl"} <= kept
    assert len([name for name in kept if name.startswith("valid-step-")]) == 2
    assert (run / "tokenizer.model").stat().st_size > 1000
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().split("\n") if line]
    assert all("tokens" in line and "samples" not in line for line in lines)
    assert {line["split"] for line in lines} == {"train", "valid"}


def test_the_command_line_of_sacrebleu_gives_the_same_numbers(run: Path) -> None:
    samples = run / "samples"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "sacrebleu", str(samples / "valid.ref")),
            *("-i", str(samples / "valid.hyp"), "-m", "bleu", "chrf", "ter", "-w", "6"),
        ],
        capture_output=True,
        check=True,
        text=True,
    )
    theirs = [entry["score"] for entry in json.loads(done.stdout)]
    metrics = json.loads((run / "result.json").read_text(encoding="utf-8"))["metrics"]
    ours = [metrics[name]["value"] for name in ("bleu", "chrf", "ter")]
    assert theirs == pytest.approx(ours, abs=1e-6)


def test_scores_and_texts_do_not_depend_on_the_batch_size(run: Path) -> None:
    records, texts = [], []
    for batch_size in (1, 3, 1000):
        trained = load_run(run, flags={"eval.batch_size": batch_size})
        evaluation, record = trained.evaluate("test")
        records.append(json.dumps(record))
        texts.append(evaluation.files["hyp"])
    assert len(set(records)) == len(set(texts)) == 1


def test_what_was_learnt_by_heart_is_said_and_every_text_ends_by_itself(fluent: Path) -> None:
    trained = load_run(fluent, checkpoint="last")
    pairs = number_pairs(10)
    for beam in (1, 4):
        settings = SearchSettings(beam=beam, length_penalty=0.6, max_new_tokens=60)
        answers = list(trained.generate([s for s, _ in pairs], settings, batch_size=4))
        assert [answer.best.text for answer in answers] == [target for _, target in pairs]
        assert not any(answer.best.cut for answer in answers)


def test_text_that_looks_like_a_mark_is_text(fluent: Path) -> None:
    trained = load_run(fluent, checkpoint="last")
    settings = SearchSettings(max_new_tokens=30)
    lines = ["</s> <pad>", "<sep>", "one <s> two"]
    for answer in trained.generate(lines, settings, batch_size=2):
        assert not any(m in answer.best.text for m in ("<s>", "</s>", "<pad>", "<sep>", "<unk>"))
    tokenizer = trained.text_task().tokenizer
    assert not tokenizer.mark_ids & {token for line in lines for token in tokenizer.encode(line)}


def test_a_sample_follows_its_seed_and_its_line_alone(fluent: Path) -> None:
    trained = load_run(fluent, checkpoint="last")
    lines = [source for source, _ in number_pairs(8, 40)]

    def sampled(seed: int, batch_size: int, given: list[str]) -> list[str]:
        settings = SearchSettings(temperature=3.0, max_new_tokens=20, seed=seed)
        answers = trained.generate(given, settings, batch_size=batch_size)
        return [answer.best.text for answer in answers]

    texts = sampled(1, 8, lines)
    assert sampled(1, 1, lines) == sampled(1, 3, lines) == texts
    assert sampled(1, 3, lines[:2] + lines[3:]) == texts[:2] + texts[3:]
    assert sampled(2, 8, lines) != texts
    assert len(set(sampled(1, 4, ["one"] * 6))) > 1


def test_a_moved_run_needs_nothing_else_and_says_what_resume_lacks(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(corpus, tmp_path / "data")
    start(text_config(tmp_path / "data", tmp_path / "a", **{"train.epochs": 1}), Recorder())
    shutil.move(tmp_path / "a", tmp_path / "b")
    shutil.rmtree(tmp_path / "data")
    monkeypatch.setenv("DAMCHA_CACHE", str(tmp_path / "new cache, ümlaut"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    trained = load_run(tmp_path / "b")
    answers = list(trained.generate(["one two", ""], SearchSettings(), batch_size=1))
    assert [bool(answer.best.n_tokens) for answer in answers] == [True, False]
    scored, _ = load_run(tmp_path / "b", flags={"data.root": str(corpus)}).evaluate("test")
    assert scored.metrics["bleu"].n == 9
    with pytest.raises(DataError, match=r"train\.en"):
        load_run(tmp_path / "b").evaluate("valid")
    with pytest.raises(DataError, match=r"train\.en"):
        go_on(tmp_path / "b", **{"train.epochs": 2})


def test_another_tokenizer_in_the_folder_is_refused(
    run: Path, fluent: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    shutil.copy(fluent / "tokenizer.model", copy / "tokenizer.model")
    with pytest.raises(CheckpointError, match=r"trained with another tokenizer\.model"):
        load_run(copy)
    (copy / "tokenizer.model").unlink()
    with pytest.raises(CheckpointError, match=r"tokenizer\.model: cannot be read"):
        load_run(copy)


def test_changed_texts_stop_a_resume(corpus: Path, tmp_path: Path) -> None:
    shutil.copytree(corpus, tmp_path / "data")
    changes = {"train.epochs": 2, "train.stop_after_epochs": 1}
    start(text_config(tmp_path / "data", tmp_path / "run", **changes), Recorder())
    file = tmp_path / "data" / "train.de"
    file.write_text(file.read_text(encoding="utf-8").replace("eins", "ein"), encoding="utf-8")
    with pytest.raises(DataError, match="the data changed since the run started"):
        go_on(tmp_path / "run", **{"train.stop_after_epochs": 0})


def test_scores_of_other_data_say_so_and_leave_the_samples(
    run: Path, corpus: Path, tmp_path: Path
) -> None:
    shutil.copytree(run, tmp_path / "run")
    shutil.copytree(corpus, tmp_path / "data")
    file = tmp_path / "data" / "valid.de"
    file.write_text(file.read_text(encoding="utf-8").replace("eins", "ein"), encoding="utf-8")
    kept = (tmp_path / "run" / "samples" / "valid.ref").read_bytes()
    records, notes = [], []
    for root in (corpus, tmp_path / "data"):
        trained = load_run(tmp_path / "run", flags={"data.root": str(root)})
        told: list[str] = []
        evaluation, record = trained.evaluate("valid", notify=told.append)
        notes.append((told, trained.keep_samples(evaluation)))
        records.append(record)
    assert notes[0] == ([], "")
    assert "is not the one that the run was started with" in notes[1][0][-1]
    assert notes[1][1] == "the data are not those of the run"
    assert records[0]["details"]["data"] != records[1]["details"]["data"]
    assert records[0]["config_hash"] == records[1]["config_hash"]
    assert (tmp_path / "run" / "samples" / "valid.ref").read_bytes() == kept


def test_a_record_says_how_its_texts_were_made(run: Path) -> None:
    changes = {"eval.beam": 3, "eval.length_penalty": 0.0, "eval.max_new_tokens": 5}
    _, record = load_run(run, flags=changes).evaluate("valid")
    details = record["details"]
    assert (details["beam"], details["length_penalty"], details["max_new_tokens"]) == (3, 0.0, 5)


def test_a_cache_that_cannot_be_written_is_told_by_train_and_eval(
    corpus: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DAMCHA_CACHE", str(tmp_path / "file" / "cache"))
    watcher = Recorder()
    start(text_config(corpus, tmp_path / "out", **{"train.max_steps": 1}), watcher)
    assert any("cannot be written" in line for line in watcher.notices)
    told: list[str] = []
    load_run(run).evaluate("valid", notify=told.append)
    assert any("cannot be written" in line for line in told)


def test_lines_are_answered_as_they_come_and_before_one_at_fault(run: Path) -> None:
    trained = load_run(run)
    read: list[str] = []

    def lines() -> Iterator[str]:
        for line in ("one", "two", "three"):
            read.append(line)
            yield line
        raise DataError("line 4 is not UTF-8")

    settings = SearchSettings(max_new_tokens=4)
    answers = trained.generate(lines(), settings, batch_size=1)
    next(answers)
    assert read == ["one"]
    assert answers_until_the_error(answers) == 2
    assert answers_until_the_error(trained.generate(lines(), settings, batch_size=64)) == 3


def answers_until_the_error(answers: Iterator[Answer]) -> int:
    """How many answers come before the line at fault is reported."""
    n_answers = 0
    try:
        for _ in answers:
            n_answers += 1
    except DataError as error:
        assert "line 4" in str(error)  # noqa: PT017 (what came before it is what is counted)
        return n_answers
    raise AssertionError("the line at fault was not reported")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_a_kill_in_an_epoch_changes_no_bit_and_every_pair_is_seen_once(
    child, corpus: Path, tmp_path: Path, workers: int
) -> None:
    places: dict[str, object] = {"data.root": str(corpus), "data.workers": workers}
    unbroken = tmp_path / "unbroken"
    whole = child(train_watched, unbroken, False, 0, tmp_path / "all", {**EVERY_STEP, **places})
    whole.join()
    assert whole.exitcode == 0
    out, seen = tmp_path / "run", tmp_path / "seen"
    changes: dict[str, object] = {**EVERY_STEP, **places}
    kills = (3, 8)
    for kill in kills:
        resumes = (out / "run.toml").exists()
        process = child(train_watched, out, resumes, kill + 2, seen, {} if resumes else changes)
        wait_for(lambda kill=kill: last_step(out) >= kill, process)
        process.kill()
        process.join()
        assert process.exitcode == -9
        # What the killed process did after its last checkpoint is done again.
        done, kept = last_step(out), seen.read_text(encoding="utf-8").split("\n")
        lines = [line for line in kept if line and int(line.split()[0]) <= done]
        seen.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    process = child(train_watched, out, True, 0, seen, {})
    process.join()
    assert process.exitcode == 0
    assert fingerprint(out) == fingerprint(unbroken)
    assert seen.read_text(encoding="utf-8") == (tmp_path / "all").read_text(encoding="utf-8")
    ids = [int(i) for line in seen.read_text().split("\n") for i in line.split()[1:]]
    assert sorted(ids) == sorted([*range(80), *range(80)])
    assert sorted(ids[:80]) == list(range(80))
    assert temporaries(out) == []
