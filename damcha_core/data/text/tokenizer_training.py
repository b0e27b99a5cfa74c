"""Makes the tokenizer of a run from its training text."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import sentencepiece

from damcha_core.data.notify import Notify, no_notice
from damcha_core.data.text.pairs import PairSource
from damcha_core.data.text.text_cache import TextCache
from damcha_core.data.text.tokenizer import (
    END,
    PAD,
    SEPARATOR,
    SPACE_SIGN,
    START,
    UNKNOWN,
    Tokenizer,
)
from damcha_core.errors import DataError, UsageError

Kind = Literal["unigram", "bpe"]

MAX_PAIRS = 200_000
"""Pairs, or half as many lines, that a vocabulary is made from at most."""

_RECIPE = 1
_MODEL_FILE = "tokenizer.model"
_MARKS = 5
_BYTES = 256
_MOST_PIECES = 2**20
# Nothing is gained from more text in one sentence than this, and sentencepiece drops (silently)
# what is longer than a limit in bytes: longer lines are given in several parts.
_PART_CHARACTERS = 4_000
_NOTICE_EVERY = 10_000


@dataclass(frozen=True)
class TrainedTokenizer:
    """A tokenizer, and what the user should know of how it came to be.

    Attributes:
        tokenizer: the tokenizer.
        notices: plain lines.
    """

    tokenizer: Tokenizer
    notices: tuple[str, ...] = ()


class _Lines:
    """The texts as sentencepiece gets them; keeps what went wrong while it read.

    sentencepiece turns whatever is raised here, Ctrl-C included, into an error of its own.
    """

    def __init__(self, texts: Iterable[str], notify: Notify, total: int) -> None:
        self._texts = texts
        self._notify = notify
        self._total = total
        self.n = 0
        self.trouble: BaseException | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            for text in self._texts:
                if not text.strip():
                    continue
                if self.n % _NOTICE_EVERY == 0:
                    self._notify("reading text for the vocabulary", self.n, self._total)
                self.n += 1
                for start in range(0, len(text), _PART_CHARACTERS):
                    yield text[start : start + _PART_CHARACTERS].encode("utf-8", "replace")
        except BaseException as error:
            self.trouble = error
            raise


def train_tokenizer(
    texts: Iterable[str], *, vocab_size: int, kind: Kind = "unigram", notify: Notify = no_notice
) -> TrainedTokenizer:
    """Make a tokenizer from text; the same text gives the same bytes.

    No character is changed, so that texts come back exactly. Digits are pieces of their own:
    numbers are then spelt alike whether or not they were seen. Characters that make up the
    rarest 0.05 % of the text get no piece and are written as bytes; otherwise a few foreign
    names would fill a vocabulary with letters that occur once.

    A vocabulary that is larger than the text can fill shrinks, with a notice.

    Args:
        texts: lines without line breaks; those without a character other than space count for
            nothing. All are used and held while it runs: thin a large corpus out first, as
            `cached_tokenizer` does.
        vocab_size: pieces wanted, the 5 marks and the 256 bytes included.
        kind: "unigram", or "bpe" (byte-pair encoding).
        notify: told about lines read.

    Returns:
        The tokenizer; `tokenizer.vocab_size` is the size it really has.

    Raises:
        ValueError: kind is neither of the two.
        DataError: there is no text.
        UsageError: vocab_size is too small; the message says the smallest that is possible.
    """
    if kind not in ("unigram", "bpe"):
        raise ValueError(f"kind must be unigram or bpe, not {kind!r}")
    return _train(_Lines(texts, notify, 0), vocab_size, kind, "the training text")


def cached_tokenizer(
    pairs: PairSource,
    *,
    vocab_size: int,
    kind: Kind = "unigram",
    cache: TextCache,
    notify: Notify = no_notice,
) -> TrainedTokenizer:
    """The tokenizer of both sides of some pairs, from the cache if it was made before.

    Of more than 200,000 pairs (400,000 lines) that many are used, evenly spaced, and a notice
    says so. The pairs are read as a stream.

    Args:
        pairs: the training pairs.
        vocab_size: pieces wanted, the 5 marks and the 256 bytes included.
        kind: "unigram", or "bpe" (byte-pair encoding).
        cache: where it is looked for and kept.
        notify: told about lines read; not called when nothing is read.

    Returns:
        The tokenizer; `tokenizer.vocab_size` is the size it really has.

    Raises:
        ValueError: kind is neither of the two.
        DataError: there is no text.
        UsageError: vocab_size is too small; the message says the smallest that is possible.
        OSError: the cache cannot be written any more, as when the disk is full.
    """
    if kind not in ("unigram", "bpe"):
        raise ValueError(f"kind must be unigram or bpe, not {kind!r}")
    # Another version of sentencepiece may make another model from the same text.
    recipe = f"{_RECIPE} {sentencepiece.__version__} {MAX_PAIRS} {kind} {vocab_size}"
    key = hashlib.sha256(f"{pairs.content_hash} {recipe}".encode()).hexdigest()

    def build(folder: Path) -> dict[str, object]:
        total = 2 * min(len(pairs), MAX_PAIRS)
        lines = _Lines(_both_sides(pairs), notify, total)
        made = _train(lines, vocab_size, kind, pairs.name)
        (folder / _MODEL_FILE).write_bytes(made.tokenizer.model)
        return {"notices": [*_thinned_notice(pairs), *made.notices]}

    entry = cache.entry("tokenizer", key, build)
    tokenizer = Tokenizer((entry.folder / _MODEL_FILE).read_bytes())
    return TrainedTokenizer(tokenizer, tuple(map(str, entry.facts["notices"])))


def _both_sides(pairs: PairSource) -> Iterator[str]:
    """Source and target of at most MAX_PAIRS pairs, evenly spaced."""
    n = len(pairs)
    used = min(n, MAX_PAIRS)
    for i, (source, target) in enumerate(pairs):
        # Of the n steps from 0 to `used`, those that reach the next whole number.
        if n <= MAX_PAIRS or (i + 1) * used // n > i * used // n:
            yield source
            yield target


def _thinned_notice(pairs: PairSource) -> list[str]:
    if len(pairs) <= MAX_PAIRS:
        return []
    return [
        f"the vocabulary is made from {MAX_PAIRS:,} pairs of {pairs.name}, evenly spaced among "
        f"its {len(pairs):,}"
    ]


def _train(lines: _Lines, vocab_size: int, kind: Kind, name: str) -> TrainedTokenizer:
    # No path is ever given: sentencepiece splits input paths at commas.
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type=kind,
            # Sizes out of this range meet other limits first, whose messages name no number.
            vocab_size=min(max(vocab_size, _MARKS + _BYTES), _MOST_PIECES),
            hard_vocab_limit=False,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            add_dummy_prefix=True,
            split_digits=True,
            byte_fallback=True,
            character_coverage=0.9995,
            # Without a piece for the space, a text of long lines without any would lose it.
            required_chars=SPACE_SIGN,
            pad_id=0,
            unk_id=1,
            bos_id=2,
            eos_id=3,
            pad_piece=PAD,
            unk_piece=UNKNOWN,
            bos_piece=START,
            eos_piece=END,
            control_symbols=[SEPARATOR],
            max_sentence_length=4 * _PART_CHARACTERS + 1,
            num_threads=1,
            minloglevel=2,
        )
    # sentencepiece 0.2.0 ends with the second when reading fails.
    except (RuntimeError, SystemError) as error:
        if lines.trouble is not None:
            raise lines.trouble from None
        if not lines.n:
            raise DataError(
                f"there is no text to make a vocabulary from: every line of {name} is blank. Look "
                "at the training data"
            ) from None
        raise _plain(error, vocab_size) from None
    tokenizer = Tokenizer(model.getvalue())
    return TrainedTokenizer(tokenizer, tuple(_shrunk_notice(tokenizer.vocab_size, vocab_size)))


def _shrunk_notice(size: int, wanted: int) -> list[str]:
    if size >= wanted:
        return []
    return [
        f"the vocabulary has {size:,} pieces, not {wanted:,}: the training text has no more "
        f"({_MARKS} marks and {_BYTES} bytes included)"
    ]


def _plain(error: Exception, vocab_size: int) -> Exception:
    found = re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error))
    if found is None:
        return error
    return UsageError(
        f"a vocabulary of {vocab_size} is too small for this text: {_MARKS} marks, {_BYTES} bytes "
        f"and its characters need {int(found[1])}. Set data.vocab_size to {int(found[1])} or more"
    )
