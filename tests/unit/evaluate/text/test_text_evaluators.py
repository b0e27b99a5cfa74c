"""Scoring text tasks: all references, all floors, and what is missing said beforehand."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from tiny_texts import text_config, write_wmt

from damcha_core.evaluate.evaluator import build_evaluator
from damcha_core.evaluate.text import concept_to_text
from damcha_core.evaluate.text.concept_to_text import ConceptEvaluator
from damcha_core.evaluate.text.generation import Answer, GeneratedText
from damcha_core.evaluate.text.text_evaluator import target_losses
from damcha_core.models.conditional_lm import ConditionalLM
from damcha_core.tasks.build import build_task
from damcha_core.tasks.text_task import TextTask

ROWS = {
    "train": [("dog run", "A dog runs."), ("cat sleep", "A cat sleeps."), ("hen eat", "Hens eat.")],
    "dev": [
        ("dog park run", "A dog runs in the park."),
        ("cat category", "The cat sleeps."),
        ("cat category", "Cats sleep."),
        ("cat category", "A cat of a category."),
        ("cat category", "Some cat."),
        ("ice cream eat", "She eats ice cream."),
        ("ice cream eat", "They ate ice cream."),
    ],
}


@pytest.fixture
def concepts(tmp_path: Path) -> TextTask:
    """CommonGen's files with three sets of 1, 4 and 2 references in dev."""
    folder = tmp_path / "commongen"
    folder.mkdir()
    for split, rows in ROWS.items():
        for ending, side in (("src_alpha", 0), ("tgt", 1)):
            text = "\n".join(row[side] for row in rows)
            (folder / f"commongen.{split}.{ending}.txt").write_text(text, encoding="utf-8")
    task = build_task(text_config(tmp_path, tmp_path / "run", **{"run.task": "commongen"}))
    assert isinstance(task, TextTask)
    return task


def answered(evaluator: ConceptEvaluator, texts: list[str]) -> None:
    """Put texts in the place of a model's."""
    for place, text in enumerate(texts):
        written = GeneratedText(text, -1.0, -1.0, len(text.split()), False)
        evaluator.answers[place] = Answer((written,), 3, False)
    evaluator.nll = dict.fromkeys(range(7), (1.0, 2))


def test_every_reference_of_a_set_counts(concepts: TextTask) -> None:
    evaluator = build_evaluator(concepts)
    assert isinstance(evaluator, ConceptEvaluator)
    evaluator.prepare("valid", for_report=True)
    assert [len(references) for references in evaluator.references] == [1, 4, 2]
    # Each is the last reference of its set: with the first alone none would be right.
    answered(evaluator, ["A dog runs in the park.", "Some cat.", "They ate ice cream."])
    result = evaluator.result("valid")
    assert result.metrics["bleu4"].value == pytest.approx(1.0, abs=1e-6)
    assert result.metrics["rouge_l"].value == pytest.approx(1.0)
    assert result.metrics["bleu4"].n == 3
    # dog, park, run | cat, not category | ice and cream; "ate" is not a form of "eat" by stem
    assert result.metrics["coverage"].value == pytest.approx((1 + 1 / 2 + 2 / 3) / 3)
    assert result.metrics["perplexity"].value == pytest.approx(math.exp(0.5))
    assert result.details["all_concepts_covered"] == pytest.approx(1 / 3)
    records = [json.loads(line) for line in result.files["jsonl"].split("\n") if line]
    assert [len(record["references"]) for record in records] == [1, 4, 2]
    assert records[1]["scores"]["coverage"] == 0.5
    assert records[1]["sums"] == {"negative_log_likelihood": 4.0, "target_tokens": 8}
    assert set(result.floors) == {"nearest_training_target", "concepts_themselves"}
    assert result.floors["concepts_themselves"]["coverage"].value == 1.0


def test_a_blank_text_covers_nothing_and_is_scored(concepts: TextTask) -> None:
    evaluator = build_evaluator(concepts)
    assert isinstance(evaluator, ConceptEvaluator)
    evaluator.prepare("valid", for_report=False)
    answered(evaluator, ["", "", ""])
    result = evaluator.result("valid")
    assert result.metrics["coverage"].value == 0.0
    assert result.metrics["cider"].value == 0.0
    assert result.files["hyp"] == "\n\n\n"
    assert result.floors == {}


def test_meteor_is_said_to_be_missing_before_and_is_null_then(
    concepts: TextTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concept_to_text, "wordnet_available", lambda: False)
    monkeypatch.setattr(concept_to_text, "wordnet_problem", lambda: "METEOR needs WordNet")
    evaluator = build_evaluator(concepts)
    assert isinstance(evaluator, ConceptEvaluator)
    assert evaluator.notices() == ("meteor: not available. METEOR needs WordNet",)
    evaluator.prepare("valid", for_report=True)
    answered(evaluator, ["A dog.", "A cat.", "Ice."])
    metrics = evaluator.result("valid").metrics
    assert (metrics["meteor"].value, metrics["meteor"].n) == (None, 0)
    assert metrics["bleu4"].value is not None


def test_meteor_is_there_where_wordnet_is(
    concepts: TextTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    from damcha_core.evaluate.text.meteor import meteor_nosyn

    monkeypatch.setattr(concept_to_text, "wordnet_available", lambda: True)
    monkeypatch.setattr(concept_to_text, "wordnet_problem", lambda: None)
    monkeypatch.setattr(concept_to_text, "meteor", meteor_nosyn)
    evaluator = build_evaluator(concepts)
    assert isinstance(evaluator, ConceptEvaluator)
    assert evaluator.notices() == ()
    for for_report, expected in ((True, 3), (False, 0)):
        evaluator.prepare("valid", for_report=for_report)
        answered(evaluator, ["A dog.", "A cat.", "Ice."])
        assert evaluator.result("valid").metrics["meteor"].n == expected


def test_losses_of_references_are_plain_and_follow_no_neighbour(tmp_path: Path) -> None:
    write_wmt(tmp_path / "data")
    task = build_task(text_config(tmp_path / "data", tmp_path / "run"))
    torch.manual_seed(1)
    model = task.build_model().double().eval()
    assert isinstance(model, ConditionalLM)
    dataset = task.dataset("valid", training=False)
    keys = [(0, i) for i in range(11)]
    together = target_losses(model, dataset.__getitems__(keys))
    alone = [target_losses(model, dataset.__getitems__([key]))[0] for key in keys]
    assert together == pytest.approx(alone, abs=1e-10)
    plain = task.loss(model, dataset.__getitems__(keys)).total.item()  # smoothed by 0.1
    assert not math.isclose(sum(together), plain, rel_tol=1e-3)


def test_what_was_scored_is_counted_in_tokens(tmp_path: Path) -> None:
    write_wmt(tmp_path / "data")
    task = build_task(text_config(tmp_path / "data", tmp_path / "run"))
    assert isinstance(task, TextTask)
    torch.manual_seed(1)
    model = task.build_model()
    result = build_evaluator(task).evaluate(model, "valid", batch_size=3)
    assert result.size == int(task.pairs("valid").n_tokens.sum())
    assert result.metrics["ter"].value is None  # left out during training
    assert result.metrics["bleu"].interval is None
    assert result.details["beam"] == 1
    assert result.details["cut_texts"] <= result.details["texts"] == 11
