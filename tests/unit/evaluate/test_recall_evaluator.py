"""Scores of recall: by hand, whatever the batch, and beside answers that look nothing up."""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch import nn

from damcha_core.config.resolve import resolve_mapping
from damcha_core.errors import NonFiniteError
from damcha_core.evaluate.evaluator import build_evaluator, reporting_model
from damcha_core.evaluate.recall import RecallEvaluator, query_scores
from damcha_core.tasks.build import build_task

PAIRS, SYMBOLS = 3, 5


def evaluator() -> RecallEvaluator:
    settings = {
        "run": {"task": "recall"},
        "model": {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_layers": 1},
        "attention": {"name": "mha"},
        "data": {"n_pairs": PAIRS, "vocab_size": 2 * SYMBOLS + 1, "sequence_length": 11},
    }
    built = build_evaluator(build_task(resolve_mapping(settings)))
    assert isinstance(built, RecallEvaluator)
    return built


class Stub(nn.Module):
    """Answers by a rule: logits (T, V) of the tokens of a sequence and the place of a query."""

    def __init__(self, rule):
        super().__init__()
        self.rule, self.weight = rule, nn.Parameter(torch.zeros(()))

    def forward(self, tokens_BN, where_BN):
        rows = []
        for tokens, where in zip(tokens_BN.tolist(), where_BN.tolist(), strict=True):
            rows += [self.rule(tokens, place) for place, asked in enumerate(where) if asked]
        logits = torch.zeros(len(rows), 2 * SYMBOLS + 1, dtype=torch.float64)
        logits[torch.arange(len(rows)), torch.tensor(rows)] = 3.0
        return logits


def perfect(tokens, place):
    return tokens[tokens.index(tokens[place]) + 1]


def first_value(tokens, place):
    return tokens[1]


def test_a_look_up_is_right_and_the_first_value_is_right_once_a_sequence():
    one = evaluator()
    right = one.evaluate(Stub(perfect), "valid", batch_size=100)
    assert right.metrics["accuracy"].value == 1
    assert right.metrics["accuracy"].n == 512 * PAIRS
    expected = math.log(math.exp(3) + 2 * SYMBOLS) - 3
    assert right.metrics["loss"].value == pytest.approx(expected, rel=1e-12)
    assert right.loss == right.metrics["loss"].value
    wrong = one.evaluate(Stub(first_value), "valid", batch_size=100)
    assert wrong.metrics["accuracy"].value == pytest.approx(1 / PAIRS, rel=1e-12)


def test_a_query_by_hand():
    logits_TV = torch.tensor([[0.0, 2.0, 1.0], [1.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    right_T, losses_T = query_scores(logits_TV, torch.tensor([1, 0, 1]))
    assert right_T.tolist() == [1, 1, 0]  # of equal logits the first counts
    assert losses_T[0].item() == pytest.approx(math.log(1 + math.exp(2) + math.exp(1)) - 2)
    with pytest.raises(NonFiniteError):
        query_scores(torch.full((1, 3), math.nan), torch.tensor([0]))


def test_no_score_depends_on_the_batch_size():
    one = evaluator()
    torch.manual_seed(0)
    model = reporting_model(one.task.build_model())
    lines = set()
    for batch_size in (1, 7, 512):
        scored = one.evaluate(model, "test", batch_size=batch_size, for_report=True)
        lines.add(scored.files["jsonl"])
    assert len(lines) == 1


def test_the_trivial_answers_are_what_a_reader_can_work_out():
    scored = evaluator().evaluate(Stub(perfect), "test", batch_size=256, for_report=True)
    shown, any_value = scored.floors["random_shown_value"], scored.floors["random_value"]
    assert shown["accuracy"].value == 1 / PAIRS
    assert shown["loss"].value == math.log(PAIRS)
    assert any_value["accuracy"].value == 1 / SYMBOLS
    assert any_value["loss"].value == math.log(SYMBOLS)
    assert not evaluator().evaluate(Stub(perfect), "test", batch_size=256).floors


def test_a_shown_value_by_chance_scores_the_trivial_answer():
    """The floor against drawn answers, so that it is no mere formula."""
    generator = torch.Generator().manual_seed(1)

    def guess(tokens, place):
        return tokens[1 + 2 * int(torch.randint(PAIRS, (), generator=generator))]

    scored = evaluator().evaluate(Stub(guess), "test", batch_size=256)
    n = scored.metrics["accuracy"].n
    spread = math.sqrt(1 / PAIRS * (1 - 1 / PAIRS) / n)
    assert abs(scored.metrics["accuracy"].value - 1 / PAIRS) < 5 * spread


def test_every_sequence_has_its_line():
    scored = evaluator().evaluate(Stub(first_value), "test", batch_size=256, for_report=True)
    lines = [json.loads(line) for line in scored.files["jsonl"].splitlines()]
    assert [line["id"] for line in lines] == list(range(512))
    shares = [line["scores"]["accuracy"] for line in lines]
    assert shares == pytest.approx([1 / PAIRS] * 512)
    assert scored.details == {"n_pairs": PAIRS, "sequence_length": 11}
