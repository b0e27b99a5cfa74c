"""BLEU, chrF and TER: the command line's numbers, references, blank and short texts, notices."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from damcha_core.evaluate.text.bootstrap import with_interval
from damcha_core.evaluate.text.sacrebleu_scores import (
    NAMES,
    metric_of,
    reference_streams,
    sacrebleu_score,
)

HYPOTHESES = [
    "The cat sat on the mat in the sun.",
    "A dog ran over the old bridge.",
    "Nobody was at home",
    "",
    "Rain, rain and more rain all day long!",
]
REFERENCES = [
    ["The cat sat on the mat in the sun.", "On the mat in the sun sat a cat."],
    ["A dog ran across the bridge.", "Over the old bridge ran a dog."],
    ["No one was home.", "The house was empty."],
    ["They closed the door.", "The door was shut."],
    ["It rained all day long.", "Rain fell the whole day."],
]


def command_line(
    folder: Path, hypotheses: list[str], references: list[list[str]]
) -> list[dict[str, float | str]]:
    """Scores of `python -m sacrebleu` on the same texts in files."""
    paths = []
    for place, lines in enumerate([hypotheses, *zip(*references, strict=True)]):
        path = folder / f"{place}.txt"
        path.write_bytes("".join(line + "\n" for line in lines).encode())
        paths.append(str(path))
    first, *others = paths
    settings = ["-m", *NAMES, "-f", "json", "-w", "12", "--confidence"]
    command = [sys.executable, "-m", "sacrebleu", *others, "-i", first, *settings]
    environment = {k: v for k, v in os.environ.items() if k != "SACREBLEU_SEED"}
    done = subprocess.run(command, capture_output=True, check=True, env=environment, text=True)
    scores: list[dict[str, float | str]] = json.loads(done.stdout)
    return scores


@pytest.mark.parametrize("n_references", [1, 2])
def test_same_numbers_as_the_command_line(tmp_path: Path, n_references: int) -> None:
    # Several times over: its resampling fails where one resample scores exactly 0.
    hypotheses = HYPOTHESES * 6
    references = [of_item[:n_references] for of_item in REFERENCES] * 6
    for name, theirs in zip(NAMES, command_line(tmp_path, hypotheses, references), strict=True):
        score = with_interval(sacrebleu_score(name, hypotheses, references))
        assert score.value == pytest.approx(theirs["score"], abs=1e-9)
        assert score.interval is not None
        half = (score.interval[1] - score.interval[0]) / 2
        # sacrebleu resamples in float32.
        assert half == pytest.approx(theirs["confidence_var"], abs=1e-4)
        parts = score.signature.split("|")
        assert all(part in str(theirs["signature"]).split("|") for part in parts)


@pytest.mark.parametrize("name", NAMES)
def test_value_is_that_of_the_public_method(name: str) -> None:
    metric = metric_of(name)
    theirs = metric.corpus_score(HYPOTHESES, reference_streams(REFERENCES))
    score = sacrebleu_score(name, HYPOTHESES, REFERENCES)
    assert score.value == theirs.score
    assert score.signature == metric.get_signature().format()


@pytest.mark.parametrize("name", NAMES)
def test_interval_ignores_the_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    score = sacrebleu_score(name, HYPOTHESES, REFERENCES)
    first = with_interval(score).interval
    monkeypatch.setenv("SACREBLEU_SEED", "none")
    assert with_interval(score).interval == first
    assert first is not None
    assert score.value is not None
    assert first[0] <= score.value <= first[1]


def test_uneven_references_are_padded() -> None:
    uneven = [["a b c d e", "x"], ["a b c d e"]]
    assert reference_streams(uneven) == [["a b c d e", "a b c d e"], ["x", None]]
    score = sacrebleu_score("bleu", ["a b c d e"] * 2, uneven)
    assert score.value == 100.0
    assert "nrefs:var" in score.signature


def test_all_references_are_used() -> None:
    references = [["nothing alike here at all", "the cat sat on the mat"]]
    for name, best in (("bleu", 100.0), ("chrf", 100.0), ("ter", 0.0)):
        assert sacrebleu_score(name, ["the cat sat on the mat"], references).value == best


@pytest.mark.parametrize("text", [HYPOTHESES[0], HYPOTHESES[1], "a b c d e f g"])
def test_perfect_scores_are_round(text: str) -> None:
    for name, best in (("bleu", 100.0), ("chrf", 100.0), ("ter", 0.0)):
        score = with_interval(sacrebleu_score(name, [text] * 3, [[text]] * 3))
        assert score.value == best
        assert score.items == (best,) * 3
        assert score.interval == (best, best)
        assert score.notices == ()


def test_one_right_of_three() -> None:
    hypotheses = ["The cat sat on the mat.", "Green is blue and red.", "Who?"]
    references = [["The cat sat on the mat."], ["There is no more to say."], ["It was him."]]
    score = sacrebleu_score("bleu", hypotheses, references)
    assert score.value is not None
    assert 0.0 < score.value < 100.0
    assert score.items is not None
    assert score.items[0] == 100.0


def test_all_outputs_empty() -> None:
    expected = {"bleu": 0.0, "chrf": 0.0, "ter": 100.0}
    for name, value in expected.items():
        score = with_interval(sacrebleu_score(name, ["", "  "], [["One here."], ["Two here."]]))
        assert score.value == value
        assert score.notices == ("every output is empty",)
        assert score.interval == (value, value)


def test_two_word_texts_are_explained() -> None:
    texts = ["Good morning", "Thank you"]
    score = sacrebleu_score("bleu", texts, [[text] for text in texts])
    assert score.value == 0.0
    assert score.items == (100.0, 100.0)
    assert len(score.notices) == 1
    assert "4-grams" in score.notices[0]
    assert sacrebleu_score("chrf", texts, [[text] for text in texts]).value == 100.0


def test_no_match_is_explained() -> None:
    apart = sacrebleu_score("bleu", ["a b c d e"], [["v w x y z"]])
    assert apart.value == 0.0
    assert "no word" in apart.notices[0]
    smoothed = sacrebleu_score("bleu", ["a b c d e"], [["a b c x y"]])
    assert smoothed.value is not None
    assert smoothed.value > 0.0
    assert "smoothing" in smoothed.notices[0]


@pytest.mark.parametrize("name", NAMES)
def test_blank_references(name: str) -> None:
    score = sacrebleu_score(name, ["A word or two here.", "Same here, it is."], [[""], ["", " "]])
    assert score.value == (100.0 if name == "ter" else 0.0)
    assert "2 of 2 items have blank references only" in score.notices
    blank_both = sacrebleu_score(name, [""], [[""]])
    assert blank_both.value == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_nothing_to_score(name: str) -> None:
    score = with_interval(sacrebleu_score(name, [], []))
    assert score.value is None
    assert score.n == 0
    assert score.interval is None
    assert score.notices


def test_tokenised_text_is_said_once_and_nothing_is_logged(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    texts = [f"Line {n} ends like this one ." for n in range(150)]
    references = [[text] for text in texts]
    with caplog.at_level(logging.DEBUG):
        scores = [sacrebleu_score(name, texts, references) for name in NAMES]
    notices = [line for score in scores for line in score.notices]
    assert len(notices) == 1
    assert "already tokenised text" in notices[0]
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("n_spaced", "said"), [(0, False), (99, False), (100, True)])
def test_a_hundred_tokenised_lines_of_many(n_spaced: int, said: bool) -> None:
    texts = ["It ends here ."] * n_spaced + ["It ends here."] * 300
    score = sacrebleu_score("bleu", texts, [[text] for text in texts])
    assert any("already tokenised" in line for line in score.notices) == said


def test_references_the_wrong_way_round_are_refused() -> None:
    with pytest.raises(ValueError, match="2 outputs but references for 1"):
        sacrebleu_score("bleu", ["a", "b"], [["a", "b"]])
    with pytest.raises(TypeError, match="item 0"):
        sacrebleu_score("bleu", ["a"], ["a"])
    with pytest.raises(ValueError, match="Item 1 has no reference"):
        sacrebleu_score("chrf", ["a", "b"], [["a"], []])
    with pytest.raises(ValueError, match="unknown metric 'rouge'"):
        sacrebleu_score("rouge", ["a"], [["a"]])
