"""How a text is searched for."""

from __future__ import annotations

import math
from dataclasses import dataclass

from damcha_core.errors import UsageError


@dataclass(frozen=True)
class SearchSettings:
    """Settings of a search; those of sampling have no effect at temperature 0.

    Attributes:
        beam: hypotheses kept for each prompt, at least 1; 1 is greedy search.
        n_best: texts returned for each prompt, 1 up to beam.
        length_penalty: exponent alpha of the length penalty, at least 0; 0: none.
        max_new_tokens: most text tokens, at least 0; the end mark comes on top.
        min_new_tokens: fewest text tokens, 0 up to max_new_tokens; a prompt whose own limit is
            smaller has that many.
        no_repeat_ngram: no run of this many tokens comes twice in a text; 0: off.
        repetition_penalty: above 0; 1: off; larger values make tokens that the text has already
            less probable.
        temperature: at least 0; 0: the most probable text is searched for, nothing is drawn.
        top_k: only this many of the most probable tokens are drawn; 0, and any number above the
            vocabulary: all.
        top_p: only the smallest set of most probable tokens that reaches this probability is
            drawn, above 0 up to 1; 1: all.
        seed: seed of the draws, within 64 bits.

    Raises:
        UsageError: a value is out of its range, or beam is above 1 at a temperature above 0.
    """

    beam: int = 1
    n_best: int = 1
    length_penalty: float = 0.0
    max_new_tokens: int = 128
    min_new_tokens: int = 0
    no_repeat_ngram: int = 0
    repetition_penalty: float = 1.0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        wrong = [
            f"{name} must be {allowed}, not {getattr(self, name)}"
            for name, allowed, is_allowed in self._ranges()
            if not is_allowed
        ]
        if not wrong and self.temperature > 0 and self.beam > 1:
            wrong = [
                f"temperature {self.temperature} draws one text, beam {self.beam} searches for "
                "the best one; set beam to 1 or temperature to 0"
            ]
        if wrong:
            raise UsageError("\n".join(wrong))

    def _ranges(self) -> list[tuple[str, str, bool]]:
        finite = math.isfinite
        return [
            ("beam", "at least 1", self.beam >= 1),
            ("n_best", f"between 1 and beam ({self.beam})", 1 <= self.n_best <= self.beam),
            (
                "length_penalty",
                "a finite number, at least 0",
                self.length_penalty >= 0 and finite(self.length_penalty),
            ),
            ("max_new_tokens", "at least 0", self.max_new_tokens >= 0),
            (
                "min_new_tokens",
                f"between 0 and max_new_tokens ({self.max_new_tokens})",
                0 <= self.min_new_tokens <= self.max_new_tokens,
            ),
            ("no_repeat_ngram", "at least 0 (0: off)", self.no_repeat_ngram >= 0),
            (
                "repetition_penalty",
                "a finite number above 0 (1: off)",
                self.repetition_penalty > 0 and finite(self.repetition_penalty),
            ),
            (
                "temperature",
                "a finite number, at least 0 (0: nothing is drawn)",
                self.temperature >= 0 and finite(self.temperature),
            ),
            ("top_k", "at least 0 (0: all tokens)", self.top_k >= 0),
            ("top_p", "above 0 and at most 1 (1: all tokens)", 0 < self.top_p <= 1),
            ("seed", "between -2**63 and 2**63 - 1", -(2**63) <= self.seed < 2**63),
        ]
