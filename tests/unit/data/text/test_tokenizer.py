"""Text comes back from the tokenizer as it was, and marks are no text."""

from __future__ import annotations

import contextlib
import hashlib
import io
import pickle

import numpy as np
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from damcha_core.data.text.tokenizer import Tokenizer
from damcha_core.data.text.tokenizer_training import train_tokenizer
from damcha_core.errors import DataError

TEXT = [f"The {a} house, no. {n}; das {a}e Haus" for n, a in enumerate(["red", "groß", "old"] * 20)]
# Characters that the vocabulary knows and that other software treats in a special way.
ODD = ["a\tb  c \u2028 \x85 \x0c \ufdd0 ▅ ⁇ </s><pad> <0x41>"] * 20


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def tokenizer(request):
    return train_tokenizer(TEXT + ODD, vocab_size=400, kind=request.param).tokenizer


KINDS = {
    kind: train_tokenizer(TEXT, vocab_size=330, kind=kind).tokenizer for kind in ("bpe", "unigram")
}


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "  a  double  space  ",
        "\ta\t\tb",
        "e\u0301 a\u0308 \ufb01 \ufb03 A\u030a",
        "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e",
        "\u00a0\u3000\u200b\ufeff\u00ad",
        "a\0b\0",
        "🎉👩\u200d👩\u200d👧 日本語 \U0010ffff",
        "\u2581 a\u2581\u2581b\u2581",
        "\ufdd0\u2581\ufdd1",
        "▅ ⁇ \ufffd",
        "<0x41> <0x0A>",
        "</s> <pad> <sep> <unk> <s></s>",
        "'; DROP \\ \" ${HOME} %s {0}",
    ],
)
def test_a_text_comes_back_as_it_was(tokenizer, text):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert not tokenizer.mark_ids & set(ids)
    assert all(type(i) is int for i in ids)


pieces_of_text = st.one_of(
    st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"),
    st.sampled_from("\u2581 \t\u2028\x85\0▅ae1ß\ufdd0\ufdd1"),
    st.sampled_from(["</s>", "<pad>", "<sep>", "<0x41>", " ⁇ ", "das große Haus"]),
)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@settings(max_examples=300, deadline=None)
@given(st.lists(pieces_of_text, max_size=20).map("".join))
def test_any_text_comes_back_as_it_was(kind, text):
    tokenizer = KINDS[kind]
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert not tokenizer.mark_ids & set(ids)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_ids_are_one_line_of_text(kind, data):
    tokenizer = KINDS[kind]
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=20))
    text = tokenizer.decode(ids)
    assert not {"\n", "\r"} & set(text)
    text.encode("utf-8")
    assert tokenizer.decode(tokenizer.encode(text)) == text


def byte_ids(tokenizer, *values):
    names = [tokenizer.piece(i) for i in range(tokenizer.vocab_size)]
    return [names.index(f"<0x{value:02X}>") for value in values]


def test_the_space_sign_is_a_space_only_when_nothing_can_stand_for_it(tokenizer):
    crowd = "".join(map(chr, range(0xFDD0, 0xFDF0)))
    assert tokenizer.decode(tokenizer.encode(crowd + "\u2581")) == crowd + " "
    assert tokenizer.decode(tokenizer.encode(crowd[1:] + "x")) == crowd[1:] + "x"


def test_line_breaks_become_spaces(tokenizer):
    assert tokenizer.decode(tokenizer.encode("a\nb\r\nc")) == "a b  c"
    assert tokenizer.decode(byte_ids(tokenizer, 0x0A, 0x0D, 0x61)) == "  a"


def test_bytes_that_are_no_character_become_the_replacement_character(tokenizer):
    assert tokenizer.decode(byte_ids(tokenizer, 0x61, 0xC3)) == "a\ufffd"
    assert tokenizer.decode(byte_ids(tokenizer, 0xED, 0xA0, 0x80)) == "\ufffd" * 3


def test_marks_are_left_out_even_inside_a_character(tokenizer):
    first, second = byte_ids(tokenizer, 0xC3, 0x9F)
    inside = [tokenizer.bos_id, first, tokenizer.sep_id, second, tokenizer.eos_id]
    assert tokenizer.decode([*inside, tokenizer.pad_id, tokenizer.unk_id]) == "ß"


def test_ids_of_an_array_are_read(tokenizer):
    ids = np.array(tokenizer.encode("das Haus"), dtype=np.uint16)
    assert tokenizer.decode(ids) == "das Haus"


def test_an_id_that_does_not_exist_is_refused(tokenizer):
    for wrong in (-1, tokenizer.vocab_size):
        with pytest.raises(IndexError):
            tokenizer.decode([wrong])
        with pytest.raises(IndexError):
            tokenizer.piece(wrong)


def test_marks_differ_and_are_named(tokenizer):
    marks = [
        tokenizer.pad_id,
        tokenizer.unk_id,
        tokenizer.bos_id,
        tokenizer.eos_id,
        tokenizer.sep_id,
    ]
    assert marks == [0, 1, 2, 3, 4]
    assert tokenizer.mark_ids == frozenset(marks)
    assert [tokenizer.piece(i) for i in marks] == ["<pad>", "<unk>", "<s>", "</s>", "<sep>"]


def test_digits_are_pieces_of_their_own(tokenizer):
    for text in ("1234", "no. 17"):
        pieces = [tokenizer.piece(i) for i in tokenizer.encode(text)]
        assert all(len(p) == 1 for p in pieces if any(c.isdigit() for c in p) and p[0] != "<")


def test_threads_do_not_change_the_result(tokenizer):
    texts = [*TEXT, "", "\u2581", "</s>"] * 5
    one = tokenizer.encode_all(texts)
    assert one == tokenizer.encode_all(texts, threads=3)
    assert one == [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_all([]) == []


def test_half_a_surrogate_pair_is_a_data_error(tokenizer):
    with pytest.raises(DataError, match=r"surrogate pair at character 3.*ud800"):
        tokenizer.encode_all(["fine", "ab\ud800"])


def test_a_tokenizer_is_its_bytes(tokenizer):
    again = Tokenizer(tokenizer.model)
    assert again.model == tokenizer.model
    assert again.fingerprint == tokenizer.fingerprint
    assert again.fingerprint == hashlib.sha256(tokenizer.model).hexdigest()
    sent = pickle.loads(pickle.dumps(tokenizer))
    assert sent.encode("das Haus") == tokenizer.encode("das Haus")


def test_damaged_bytes_are_a_data_error(tokenizer, capfd):
    model = tokenizer.model
    for bad in (b"", b"no model", model[: len(model) // 2], model[:-7], b"\0" * 100):
        with pytest.raises(DataError, match=r"cannot be read|was not made by damcha"):
            Tokenizer(bad)
    assert capfd.readouterr() == ("", "")


def test_any_changed_byte_is_accepted_or_a_data_error(tokenizer):
    random = np.random.RandomState(0)
    for _ in range(100):
        model = bytearray(tokenizer.model)
        model[random.randint(len(model))] ^= 1 << random.randint(8)
        with contextlib.suppress(DataError):
            Tokenizer(bytes(model))


@pytest.mark.parametrize(
    "setting",
    [
        {"pad_id": -1},
        {"control_symbols": []},
        {"control_symbols": [], "user_defined_symbols": ["<sep>"]},
        {"byte_fallback": False},
    ],
)
def test_a_model_without_our_marks_is_a_data_error(setting):
    model = io.BytesIO()
    good = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3, "control_symbols": ["<sep>"]}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT),
        model_writer=model,
        vocab_size=400,
        hard_vocab_limit=False,
        minloglevel=2,
        **{**good, "byte_fallback": True, **setting},
    )
    with pytest.raises(DataError, match="not made by damcha"):
        Tokenizer(model.getvalue())
