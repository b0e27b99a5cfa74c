"""Text to token ids and back, without losing a character."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import sentencepiece

from damcha_core.errors import DataError

PAD, UNKNOWN, START, END, SEPARATOR = "<pad>", "<unk>", "<s>", "</s>", "<sep>"

SPACE_SIGN = "\u2581"
"""How sentencepiece writes a space inside its pieces."""

# Code points that stand for nothing and are kept free for uses inside a program.
_STAND_INS = tuple(chr(code) for code in range(0xFDD0, 0xFDF0))
_ONE_LINE = str.maketrans("\n\r", "  ")


class Tokenizer:
    """A sentencepiece model with our marks, held as the bytes of its file.

    A text comes back from `decode(encode(text))` exactly, spaces at its ends and characters that
    the model never saw included (they are written as their UTF-8 bytes). There are two
    exceptions: a line feed or a carriage return comes back as a space, and U+2581, by which
    sentencepiece marks a space inside its pieces, comes back as a space if the text (or the
    vocabulary) also holds all of U+FDD0 to U+FDEF. Text that looks like a mark, such as "</s>",
    is text like any other.

    A tokenizer that is pickled, as for a data worker, is its model's bytes.

    Args:
        model: bytes of a model that `train_tokenizer` made.

    Raises:
        DataError: the bytes are no sentencepiece model.
        DataError: it is a model without our marks, or without pieces for a space and for bytes.
    """

    def __init__(self, model: bytes) -> None:
        self._model = bytes(model)
        self._processor = _load(self._model)
        find = self._processor.piece_to_id
        self._pad, self._unk = find(PAD), find(UNKNOWN)
        self._bos, self._eos, self._sep = find(START), find(END), find(SEPARATOR)
        self._marks = frozenset({self._pad, self._unk, self._bos, self._eos, self._sep})
        self._check_marks()

    def __reduce__(self) -> tuple[type[Tokenizer], tuple[bytes]]:
        return type(self), (self._model,)

    @property
    def model(self) -> bytes:
        """The model as a file holds it."""
        return self._model

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of the model, 64 hexadecimal digits."""
        return hashlib.sha256(self._model).hexdigest()

    @cached_property
    def vocab_size(self) -> int:
        """Number of pieces, the marks and the 256 bytes included."""
        return int(self._processor.vocab_size())

    @property
    def pad_id(self) -> int:
        """Id of "<pad>", which fills a batch up."""
        return self._pad

    @property
    def unk_id(self) -> int:
        """Id of "<unk>"; no text needs it, as there is a piece for each byte."""
        return self._unk

    @property
    def bos_id(self) -> int:
        """Id of "<s>", the start of a sequence."""
        return self._bos

    @property
    def eos_id(self) -> int:
        """Id of "</s>", the end of a sequence."""
        return self._eos

    @property
    def sep_id(self) -> int:
        """Id of "<sep>", between source and target."""
        return self._sep

    @property
    def mark_ids(self) -> frozenset[int]:
        """The five ids that stand for no text; of them only eos_id is ever to be generated."""
        return self._marks

    def piece(self, id: int) -> str:
        """The piece of an id, for people to read: spaces are U+2581, bytes are like "<0x0A>".

        Raises:
            IndexError: there is no such id.
        """
        return str(self._processor.id_to_piece(int(id)))

    def encode(self, text: str) -> list[int]:
        """Ids of a text, none of them a mark; none at all for the empty text.

        Raises:
            DataError: the text holds half of a surrogate pair, which is no character.
        """
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """Ids of many texts; the result does not depend on the number of threads.

        Args:
            texts: the texts.
            threads: threads to use, at least 1.

        Raises:
            DataError: a text holds half of a surrogate pair, which is no character.
        """
        stood_in = {i: self._stand_in(text) for i, text in enumerate(texts) if SPACE_SIGN in text}
        given = list(texts)
        for i, sign in stood_in.items():
            given[i] = given[i].replace(SPACE_SIGN, sign)
        try:
            found: list[list[int]] = self._processor.encode(given, num_threads=threads)
        except (RuntimeError, TypeError):
            _check_characters(given)
            raise
        for i, sign in stood_in.items():
            found[i] = self._with_space_signs(found[i], sign)
        return found

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids, always a single line.

        Marks are left out. Bytes that form no character become U+FFFD. Line feeds and carriage
        returns, which a model can write as bytes, become spaces: whoever writes one text a line
        must get as many lines as there are texts.

        Args:
            ids: token ids, also as an array.

        Raises:
            IndexError: an id is not in the vocabulary.
        """
        # Before sentencepiece sees them: it would part the bytes of one character at a mark.
        kept = [i for i in (int(id) for id in ids) if i not in self._marks]
        return str(self._processor.decode(kept)).translate(_ONE_LINE)

    def _check_marks(self) -> None:
        ask = self._processor
        named = {PAD: self._pad, START: self._bos, END: self._eos, SEPARATOR: self._sep}
        good = (
            len(self._marks) == 5
            and all(ask.is_control(i) and ask.id_to_piece(i) == name for name, i in named.items())
            and ask.is_unknown(self._unk)
            and ask.is_byte(ask.piece_to_id("<0x00>"))
            and ask.piece_to_id(SPACE_SIGN) not in self._marks
        )
        if not good:
            raise DataError(
                "the tokenizer was not made by damcha: it lacks one of the marks "
                f"{PAD} {UNKNOWN} {START} {END} {SEPARATOR}, or the pieces for a space and for "
                "bytes. Use the tokenizer of a run folder"
            )

    def _stand_in(self, text: str) -> str:
        """A character that is in neither the text nor a piece; else the space sign itself."""
        return next((c for c in self._free_characters if c not in text), SPACE_SIGN)

    @cached_property
    def _free_characters(self) -> tuple[str, ...]:
        pieces = "".join(self.piece(i) for i in range(self.vocab_size))
        return tuple(c for c in _STAND_INS if c not in pieces)

    def _with_space_signs(self, ids: list[int], sign: str) -> list[int]:
        """Put the bytes of the space sign where those of its stand-in are."""
        if sign == SPACE_SIGN:
            return ids
        old, new = self._byte_ids(sign), self._byte_ids(SPACE_SIGN)
        out: list[int] = []
        for i in ids:
            out.append(i)
            if out[-3:] == old:
                out[-3:] = new
        return out

    def _byte_ids(self, character: str) -> list[int]:
        return [self._processor.piece_to_id(f"<0x{byte:02X}>") for byte in character.encode()]


def _load(model: bytes) -> Any:
    # An empty model is not looked at by sentencepiece, and asked for anything it prints.
    trouble = "it is empty" if not model else ""
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    except (RuntimeError, ValueError):  # ValueError: a name inside is no UTF-8
        trouble = "it is cut off or damaged"
    if trouble:
        raise DataError(
            f"the tokenizer cannot be read: {trouble} ({len(model):,} bytes). Copy the whole run "
            "folder again, or train again"
        )
    return processor


def _check_characters(texts: Sequence[str]) -> None:
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            shown = text.encode("utf-8", "backslashreplace").decode()[:60]
            raise DataError(
                f"a text holds half of a surrogate pair at character {error.start + 1}, which is "
                f"no character: {shown!r}. Save the text as UTF-8"
            ) from None
