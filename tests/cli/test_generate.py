"""`damcha generate`: one line out for each line in, whatever the line, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import SMALL, child_environment, damcha
from tiny_texts import number_pairs, write_wmt

TEXT = (*SMALL[:-4], "--set", "data.vocab_size=320", "--set", "train.batch_tokens=300")


@pytest.fixture(scope="session")
def text_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short translation run; only to be read."""
    folder = tmp_path_factory.mktemp("texts")
    write_wmt(folder / "data")
    place = ("--set", f"data.root={folder / 'data'}", "--set", "data.max_tokens=64")
    damcha(
        *("train", "--task", "wmt", "--attention", "mha", *TEXT, *place),
        *("--epochs", 3, "--lr", 0.01, "--out", folder / "run"),
    ).done()
    return folder / "run"


def piped(run: Path, given: bytes, *options: object) -> tuple[bytes, str]:
    """Call the program in a process of its own, bytes in and bytes out."""
    done = subprocess.run(
        [sys.executable, "-m", "damcha_cli", "generate", str(run), *map(str, options)],
        input=given,
        capture_output=True,
        env=child_environment(LC_ALL="C", PYTHONUTF8="0"),
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr.decode()


ODD = "one\u2028two", "three\u0085four", "five\x0csix", "sev\ten", "  ", "", "acht ä ö ü"


def lines_with_oddities() -> list[str]:
    """Forty lines: blank ones first, last and within, odd separators, one far too long."""
    lines = ["", *(source for source, _ in number_pairs(30)), *ODD, " ".join(["nine"] * 500), ""]
    assert len(lines) == 40
    return lines


def test_line_count_and_order_are_kept_for_every_batch_size_and_beam(text_run: Path) -> None:
    lines = lines_with_oddities()
    given = "\n".join(lines).encode()  # no newline at the end, and the last line is blank
    assert given.count(b"\n") == 39
    outputs = {}
    for beam in (1, 4):
        for batch_size in (1, 16):
            out, err = piped(
                text_run, given + b"\n", "--beam", beam, "--batch-size", batch_size,
                "--max-new-tokens", 12,
            )  # fmt: skip
            written = out.decode().split("\n")
            assert written.pop() == ""
            assert len(written) == 40
            blank = [place for place, line in enumerate(lines) if not line.strip()]
            assert all(written[place] == "" for place in blank)
            assert "line 39 has " in err
            assert "only its beginning was read" in err
            outputs[beam, batch_size] = out
    assert outputs[1, 1] == outputs[1, 16]
    assert outputs[4, 1] == outputs[4, 16]


def test_a_file_stdin_and_text_say_the_same(text_run: Path, tmp_path: Path) -> None:
    file = tmp_path / "données, 1 #ü.txt"
    file.write_bytes("one two\r\nthree\n".encode("utf-8-sig"))
    from_file = damcha("generate", text_run, file).done().out
    from_text = damcha("generate", text_run, "--text", "one two", "--text", "three").done().out
    from_stdin, _ = piped(text_run, b"one two\nthree")
    assert from_file == from_text == from_stdin.decode()
    assert from_file.count("\n") == 2


def test_json_lines_hold_n_best_texts_with_their_scores(text_run: Path) -> None:
    answer = damcha(
        *("generate", text_run, "--text", "one two", "--text", " ", "--json"),
        *("--beam", 4, "--n-best", 3),
    ).done()
    first, blank = (json.loads(line) for line in answer.out.splitlines())
    scores = [text["score"] for text in first["texts"]]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert first["source_tokens"] > 0
    assert [text["text"] for text in blank["texts"]] == [""]
    plain = damcha("generate", text_run, "--text", "one two", "--beam", 4).done().out
    assert plain == first["texts"][0]["text"] + "\n"


def test_sampling_is_repeatable_and_its_seed_counts(text_run: Path) -> None:
    def sampled(*more: object) -> str:
        texts = ("--text", "one two three", "--text", "four five")
        return damcha("generate", text_run, *texts, "--temperature", 2.0, *more).done().out

    assert sampled() == sampled() == sampled("--batch-size", 1)
    assert sampled("--seed", 1) != sampled("--seed", 2)
    coldest = sampled("--temperature", 1e-8)
    assert coldest == sampled("--temperature", 0, "--beam", 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--temperature", -1), ("temperature", "at least 0")),
        (("--temperature", 1, "--top-p", 0), ("top_p", "above 0")),
        (("--temperature", 1, "--top-k", -1), ("top_k",)),
        (("--beam", 0), ("eval.beam", "from 1")),
        (("--n-best", 9, "--json"), ("n_best", "between 1 and beam")),
        (("--n-best", 2), ("--json",)),
        (("--min-new-tokens", 5, "--max-new-tokens", 4), ("min_new_tokens",)),
        (("--repetition-penalty", 0), ("repetition_penalty",)),
        (("--no-repeat-ngram", -1), ("no_repeat_ngram",)),
        (("--place-concepts",), ("--place-concepts", "concepts or commongen")),
        (("--set", "model.d_model=8"), ("model.d_model", "cannot change")),
        (("--text", "a\nb"), ("line break",)),
        (("--text", "a\udcff"), ("not UTF-8",)),
        (("--temperature", 1, "--beam", 4), ("temperature", "draws one text")),
    ],
)
def test_what_cannot_be_done_is_refused_with_what_can(
    text_run: Path, options: tuple[object, ...], words: tuple[str, ...]
) -> None:
    damcha("generate", text_run, "--text", "one", *options).refused(2, *words)


@pytest.mark.parametrize(
    "options",
    [
        ("--beam", 1000),
        ("--temperature", 1, "--top-k", 100_000),
        ("--temperature", 1, "--top-p", 1e-9),
        ("--max-new-tokens", 1),
        ("--no-repeat-ngram", 1),
        ("--repetition-penalty", 1.5),
        ("--min-new-tokens", 9),
    ],
)
def test_extremes_work(text_run: Path, options: tuple[object, ...]) -> None:
    answer = damcha("generate", text_run, "--text", "one", "--max-new-tokens", 9, *options).done()
    assert answer.out.count("\n") == 1


def test_input_that_cannot_be_read(text_run: Path, tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes("gut\nschön".encode("latin-1"))
    damcha("generate", text_run, tmp_path / "none").refused(3, "none", "cannot be read")
    damcha("generate", text_run, tmp_path).refused(3, "cannot be read")
    answer = damcha("generate", text_run, tmp_path / "latin")
    assert (answer.code, answer.bug) == (3, None)
    assert "line 2 is not UTF-8" in answer.err
    damcha("generate", text_run, tmp_path / "latin", "--text", "a").refused(2, "not both")


def test_a_run_of_pictures_writes_no_text_and_one_of_texts_paints_nothing(
    text_run: Path, digits_run: Path
) -> None:
    damcha("generate", digits_run, "--text", "one").refused(4, "digits", "writes no texts")
    damcha("reconstruct", text_run).refused(4, "wmt", "hides no patches")


def test_eval_of_a_text_run_prints_scores_and_keeps_texts(text_run: Path) -> None:
    record = damcha("eval", text_run, "--split", "test", "--json").json()
    assert record["metrics"]["bleu"]["n"] == 9
    assert (text_run / "samples" / "test.hyp").read_bytes().count(b"\n") == 9
    table = damcha("eval", text_run).done().out
    for word in ("bleu", "nearest training target", "tok:13a"):
        assert word in table
    damcha("eval", text_run, "--split", "unseen").refused(2, "unseen", "train, valid, test")


def test_a_missing_corpus_names_the_built_in_one(tmp_path: Path) -> None:
    for task, builtin in (("wmt", "cldr"), ("commongen", "concepts")):
        answer = damcha("train", "--task", task, "--set", f"data.root={tmp_path}")
        answer.refused(3, f"damcha train --task {builtin}", str(tmp_path), most_lines=3)
    assert not (tmp_path / "runs").exists()
