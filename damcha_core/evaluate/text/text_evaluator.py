"""Scoring a text task: what the model thinks of the references, and what it writes itself.

Shape suffixes: B pairs, N tokens, T scored tokens, D width, V vocabulary.
"""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from damcha_core.data.text.questions import Question
from damcha_core.decoding.search_settings import SearchSettings
from damcha_core.evaluate.evaluator import (
    Evaluation,
    Evaluator,
    MetricValue,
    reported_value,
)
from damcha_core.evaluate.text.bootstrap import with_interval
from damcha_core.evaluate.text.generation import ANY_LENGTH, Answer, TextGenerator
from damcha_core.evaluate.text.perplexity import perplexity, token_losses
from damcha_core.evaluate.text.text_score import TextScore
from damcha_core.models.conditional_lm import ConditionalLM
from damcha_core.tasks.task import Batch
from damcha_core.tasks.text_task import TextTask

LOGITS_AT_A_TIME = 1 << 22
"""Numbers of scores of tokens that are held at once."""


class TextEvaluator(Evaluator):
    """Perplexity of every pair, and a text for every question.

    A validation during training decodes greedily and computes no intervals; a report searches with
    eval.beam.

    Args:
        task: a text task.
    """

    task: TextTask

    def prepare(self, split: str, *, for_report: bool) -> None:
        """Forget earlier batches, and read what will be asked."""
        self.for_report = for_report
        self.asked = self.task.questions(split)
        self._place = {question.pairs[0]: place for place, question in enumerate(self.asked)}
        self._waiting: list[int] = []
        self.answers: dict[int, Answer] = {}
        self._generator: TextGenerator | None = None
        self.nll: dict[int, tuple[float, int]] = {}
        self.n_tokens = 0

    def update(self, model: nn.Module, batch: Batch) -> None:
        """Score the references of a batch, and write texts for its questions."""
        assert isinstance(model, ConditionalLM)
        ids = batch["ids"].tolist()
        counts = batch["scored"].sum(dim=1).tolist()
        for sample, nll, count in zip(ids, target_losses(model, batch), counts, strict=True):
            self.nll[sample] = (nll, count)
        self.n_tokens += self.task.size(batch)
        self._waiting += [self._place[sample] for sample in ids if sample in self._place]
        if len(self._waiting) >= self.task.config.eval.batch_size:
            self._write(model)

    def finish(self, model: nn.Module) -> None:
        """Write the texts that are still to be written."""
        assert isinstance(model, ConditionalLM)
        self._write(model)

    def _write(self, model: ConditionalLM) -> None:
        if self._generator is None:
            wanted = self.task.config.eval
            self._generator = TextGenerator(
                model,
                self.task.tokenizer,
                settings=SearchSettings(
                    beam=wanted.beam if self.for_report else 1,
                    length_penalty=wanted.length_penalty,
                    max_new_tokens=wanted.max_new_tokens or ANY_LENGTH,
                ),
                max_source_tokens=self.task.max_source_tokens,
                batch_size=wanted.batch_size,
            )
        places, self._waiting = self._waiting, []
        answers = self._generator.answers([self.asked[place].source for place in places])
        self.answers.update(zip(places, answers, strict=True))

    @property
    def hypotheses(self) -> list[str]:
        """The text for each question."""
        return [self.answers[place].best.text for place in range(len(self.asked))]

    @property
    def references(self) -> list[tuple[str, ...]]:
        """The references of each question."""
        return [question.references for question in self.asked]

    def result(self, split: str) -> Evaluation:
        """Scores of everything since prepare."""
        scores = {**self.text_scores(), "perplexity": self._perplexity()}
        wanted = self.task.config.eval
        n_scored = sum(count for _, count in self.nll.values())
        loss = sum(nll for nll, _ in self.nll.values()) / n_scored
        details: dict[str, Any] = {
            "signatures": {name: s.signature for name, s in scores.items() if s.signature},
            "notices": sorted({line for score in scores.values() for line in score.notices}),
            "texts": len(self.asked),
            "cut_texts": sum(answer.best.cut for answer in self.answers.values()),
            "cut_sources": sum(answer.source_cut for answer in self.answers.values()),
            "beam": wanted.beam if self.for_report else 1,
            "length_penalty": wanted.length_penalty,
            "max_new_tokens": wanted.max_new_tokens,
        }
        if scores["perplexity"].value == math.inf:
            details["notices"].append(
                f"the perplexity is infinite: the mean loss is {loss:.6g} nats a token"
            )
        details |= self.further_details()  # before the floors are scored in the same way
        floors = self.floors() if self.for_report else {}
        return Evaluation(
            split=split,
            loss=loss,
            size=self.n_tokens,
            metrics=self.metric_values(scores),
            details=details,
            floors=floors,
            files=self.files(scores),
        )

    @abstractmethod
    def text_scores(self) -> dict[str, TextScore]:
        """The scores of the texts by metric, without perplexity."""

    @abstractmethod
    def floors(self) -> Mapping[str, Mapping[str, MetricValue]]:
        """Scores of the trivial answers."""

    def further_details(self) -> dict[str, Any]:
        """What else a report of this task states."""
        return {}

    def metric_values(self, scores: Mapping[str, TextScore]) -> dict[str, MetricValue]:
        """Scores with the units of the catalogue, in its order; one that is not there is None."""
        return {
            spec.name: metric_value(
                scores.get(spec.name), unit=spec.unit, better=spec.better, interval=self.for_report
            )
            for spec in self.task.row.metrics
        }

    def _perplexity(self) -> TextScore:
        rows = [self.nll[sample] for sample in sorted(self.nll)]
        return perplexity([nll for nll, _ in rows], [count for _, count in rows])

    def files(self, scores: Mapping[str, TextScore]) -> dict[str, str]:
        """What is kept of the split: texts line by line, and for a report every item."""
        files = {"hyp": text_lines(self.hypotheses)}
        if not self.for_report:
            return files
        items = {
            name: score.items
            for name, score in scores.items()
            if score.items is not None and len(score.items) == len(self.asked)
        }
        records = []
        for place, question in enumerate(self.asked):
            record = item_record(
                question, self.answers[place], {name: of[place] for name, of in items.items()}
            )
            losses, counts = zip(*(self.nll[pair] for pair in question.pairs), strict=True)
            record["sums"] = {
                "negative_log_likelihood": reported_value(math.fsum(losses)),
                "target_tokens": sum(counts),
            }
            records.append(record)
        files["jsonl"] = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records)
        return files


def metric_value(score: TextScore | None, *, unit: str, better: str, interval: bool) -> MetricValue:
    """A score as a report holds it.

    Args:
        score: None: it is not available.
        unit: of the value.
        better: "lower" or "higher".
        interval: whether its 95 % interval is wanted.
    """
    if score is None:
        return MetricValue(None, unit, 0, better)
    if interval:
        score = with_interval(score)
    ends = score.interval
    if ends is not None and not all(math.isfinite(end) for end in ends):
        ends = None
    return MetricValue(score.value, unit, score.n, better, ends)


def target_losses(model: ConditionalLM, batch: Batch) -> list[float]:
    """Negative log-likelihood of each target and its end mark, in nats, unsmoothed.

    Args:
        model: in evaluation mode.
        batch: of TextDataset.
    """
    scored_BN = batch["scored"]
    hidden_TD = model.hidden(batch["tokens"])[scored_BN]
    wanted_T = batch["next_tokens"][scored_BN]
    losses: list[Tensor] = []
    n_chunk = max(1, LOGITS_AT_A_TIME // model.vocab_size)
    for hidden_CD, wanted_C in zip(hidden_TD.split(n_chunk), wanted_T.split(n_chunk), strict=True):
        losses.append(token_losses(model.logits(hidden_CD), wanted_C))
    rows = torch.cat(losses).split(scored_BN.sum(dim=1).tolist())
    return [float(row.sum()) for row in rows]


def text_lines(texts: Sequence[str]) -> str:
    """Texts as the lines of a file."""
    return "".join(f"{text}\n" for text in texts)


def item_record(
    question: Question, answer: Answer, scores: Mapping[str, float | None]
) -> dict[str, Any]:
    """A question, what was written, and how it scored, in plain types."""
    best = asdict(answer.best)
    return {
        "source": question.source,
        "references": list(question.references),
        "hypothesis": best.pop("text"),
        **{key: best[key] for key in ("log_probability", "n_tokens", "cut")},
        "scores": dict(scores),
    }
