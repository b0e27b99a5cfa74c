"""Texts from texts with a trained model: the same way for scores and for `damcha generate`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from damcha_core.data.randomness import torch_seed
from damcha_core.data.text.tokenizer import Tokenizer
from damcha_core.decoding.constraints import Constraints
from damcha_core.decoding.next_token import CachedNextTokens
from damcha_core.decoding.search import search
from damcha_core.decoding.search_settings import SearchSettings
from damcha_core.evaluate.text.concept_forms import concept_forms, concepts_of, word_starts
from damcha_core.models.conditional_lm import ConditionalLM

ROOM = 50
"""Tokens that a text may have more than its source, unless a limit is given."""
TOKENS_KEPT = 2**16
"""Tokens, of all beams, that a batch may come to keep: long texts make smaller batches."""
ANY_LENGTH = 2**31 - 1
"""SearchSettings.max_new_tokens where no limit is given."""


@dataclass(frozen=True)
class GeneratedText:
    """One text that a model wrote.

    Attributes:
        text: on one line.
        score: log-probability under the length penalty.
        log_probability: of all its tokens and the end mark, in nats.
        n_tokens: its tokens, without the end mark.
        cut: whether the limit ended it rather than the model.
        unplaced: concepts that it was to hold and does not.
    """

    text: str
    score: float
    log_probability: float
    n_tokens: int
    cut: bool
    unplaced: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """What a model wrote for a source.

    Attributes:
        texts: best first; a blank source has one blank text.
        source_tokens: tokens of the source, those that were cut off included.
        source_cut: whether the source was too long, so that only its beginning was read.
    """

    texts: tuple[GeneratedText, ...]
    source_tokens: int
    source_cut: bool

    @property
    def best(self) -> GeneratedText:
        """The first text."""
        return self.texts[0]


NOTHING = Answer((GeneratedText("", 0.0, 0.0, 0, False),), 0, False)


class TextGenerator:
    """Writes texts with a model, a batch at a time.

    Neither the batch size nor the other texts of a batch change a text: the model sees each alone,
    and random draws depend on the seed, on the source, and on how often the same source came
    before.

    Args:
        model: in evaluation mode; in float64 no text can depend on the last bits of a batch.
        tokenizer: of the run.
        settings: how to search; with max_new_tokens ANY_LENGTH each text may have 50 tokens more
            than its source.
        max_source_tokens: longer sources are cut.
        batch_size: texts at a time, at least 1.
        place_concepts: make each text hold every word of its source.
    """

    def __init__(
        self,
        model: ConditionalLM,
        tokenizer: Tokenizer,
        *,
        settings: SearchSettings,
        max_source_tokens: int,
        batch_size: int,
        place_concepts: bool = False,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.settings = settings
        self.max_source_tokens = max_source_tokens
        self.batch_size = batch_size
        self._seen: Counter[str] = Counter()
        self._starts_word = word_starts(tokenizer) if place_concepts else None

    def answers(self, sources: Sequence[str]) -> list[Answer]:
        """Write a text for each source.

        Args:
            sources: each without line breaks; of any number and length.

        Returns:
            An answer a source, in order.
        """
        answers = [NOTHING] * len(sources)
        for batch in self._batches(sources):
            for asked, answer in zip(batch, self._batch(batch), strict=True):
                answers[asked.place] = answer
        return answers

    def _batches(self, sources: Sequence[str]) -> Iterator[list[Asked]]:
        """Sources of like length together, so that little is padded; the longest first."""
        order = sorted(self._asked(sources), key=lambda asked: -len(asked.tokens))
        start = 0
        while start < len(order):
            longest = min(len(order[start].tokens), self.max_source_tokens)
            kept = self.settings.beam * (longest + self._limit(longest))
            n = max(1, min(self.batch_size, TOKENS_KEPT // kept))
            yield order[start : start + n]
            start += n

    def _limit(self, source_tokens: int) -> int:
        """Most tokens of the text for a source."""
        if self.settings.max_new_tokens != ANY_LENGTH:
            return self.settings.max_new_tokens
        return max(source_tokens + ROOM, self.settings.min_new_tokens)

    def _asked(self, sources: Sequence[str]) -> Iterator[Asked]:
        encoded = self.tokenizer.encode_all(list(sources))
        for place, (source, tokens) in enumerate(zip(sources, encoded, strict=True)):
            if not source.strip():
                continue
            bytes_of_source = source.encode("utf-8", "surrogatepass")
            occurrence = self._seen[source]
            self._seen[source] += 1
            key = torch_seed("source", occurrence, *bytes_of_source)
            yield Asked(place, source, tokens, key)

    def _batch(self, batch: Sequence[Asked]) -> list[Answer]:
        tokenizer, settings = self.tokenizer, self.settings
        read = [asked.tokens[: self.max_source_tokens] for asked in batch]
        prompts = [[tokenizer.bos_id, *tokens, tokenizer.sep_id] for tokens in read]
        limits = [self._limit(len(tokens)) for tokens in read]
        constraints = None
        if self._starts_word is not None:
            concepts = [concept_forms(asked.source, tokenizer) for asked in batch]
            constraints = Constraints(concepts, self._starts_word)
        found = search(
            CachedNextTokens(self.model, tokenizer.pad_id),
            prompts,
            settings,
            end_id=tokenizer.eos_id,
            forbidden_ids=tokenizer.mark_ids,
            limits=limits,
            keys=[asked.key for asked in batch],
            constraints=constraints,
        )
        return [
            Answer(
                tuple(
                    GeneratedText(
                        text=tokenizer.decode(list(one.tokens)),
                        score=one.score,
                        log_probability=one.log_probability,
                        n_tokens=len(one.tokens),
                        cut=one.cut,
                        unplaced=tuple(concepts_of(asked.source)[place] for place in one.unplaced),
                    )
                    for one in hypotheses
                ),
                len(asked.tokens),
                len(asked.tokens) > self.max_source_tokens,
            )
            for asked, hypotheses in zip(batch, found, strict=True)
        ]


@dataclass(frozen=True)
class Asked:
    """A source on its way through a batch: its place, its tokens, and the key of its draws."""

    place: int
    source: str
    tokens: list[int]
    key: int
