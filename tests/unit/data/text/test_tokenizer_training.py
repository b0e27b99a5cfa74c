"""A vocabulary from text: the same every time, as large as it can be, plain words when not."""

from __future__ import annotations

import re

import pytest

from damcha_core.data.text import tokenizer_training
from damcha_core.data.text.pairs import ListedPairs
from damcha_core.data.text.text_cache import TextCache
from damcha_core.data.text.tokenizer_training import cached_tokenizer, train_tokenizer
from damcha_core.errors import DataError, UsageError

WORDS = [
    "house",
    "garden",
    "river",
    "mountain",
    "Straße",
    "Brücke",
    "Öffnung",
    "weather",
    "letter",
    "window",
]
TEXT = [f"{WORDS[i % 10]} {WORDS[(i * 7 + 3) % 10]} {i}" for i in range(200)]
SCRIPTS = ["the quick brown fox", "ο γρήγορος αλεπού", "快速的棕色狐狸跳过懒狗"] * 5

kinds = pytest.mark.parametrize("kind", ["unigram", "bpe"])


@kinds
def test_the_same_text_gives_the_same_bytes(kind):
    first = train_tokenizer(TEXT, vocab_size=298, kind=kind)
    assert first.tokenizer.vocab_size == 298
    assert first.notices == ()
    again = train_tokenizer(iter(TEXT), vocab_size=298, kind=kind)
    assert again.tokenizer.model == first.tokenizer.model


def test_the_two_kinds_differ():
    models = {
        train_tokenizer(TEXT, vocab_size=350, kind=k).tokenizer.model for k in ("bpe", "unigram")
    }
    assert len(models) == 2


@kinds
@pytest.mark.parametrize("wanted", [8000, 2**40])
def test_a_vocabulary_larger_than_the_text_shrinks_with_a_notice(kind, wanted):
    made = train_tokenizer(TEXT[:50], vocab_size=wanted, kind=kind)
    size = made.tokenizer.vocab_size
    assert 261 < size < 8000
    assert made.notices == (
        f"the vocabulary has {size:,} pieces, not {wanted:,}: the training text has no more "
        "(5 marks and 256 bytes included)",
    )
    assert made.tokenizer.decode(made.tokenizer.encode(TEXT[-1])) == TEXT[-1]


@kinds
@pytest.mark.parametrize("wanted", [20, 1, 0, -5, 261, 262])
def test_a_vocabulary_too_small_says_the_smallest_that_is_possible(kind, wanted):
    with pytest.raises(UsageError, match=r"data\.vocab_size") as caught:
        train_tokenizer(SCRIPTS, vocab_size=wanted, kind=kind)
    message = str(caught.value)
    assert f"a vocabulary of {wanted} is too small" in message
    assert ".cc" not in message
    smallest = int(re.search(r"data\.vocab_size to (\d+)", message)[1])
    assert train_tokenizer(SCRIPTS, vocab_size=smallest, kind=kind).tokenizer.vocab_size == smallest
    with pytest.raises(UsageError):
        train_tokenizer(SCRIPTS, vocab_size=smallest - 1, kind=kind)


@kinds
@pytest.mark.parametrize("text", [[], [""], ["", "  \t", "\u3000"]])
def test_no_text_is_a_data_error(kind, text):
    with pytest.raises(DataError, match="every line of the training text is blank"):
        train_tokenizer(text, vocab_size=300, kind=kind)


@kinds
@pytest.mark.parametrize("part", ["ab cd ", "abcdefgh", "日本語"])
def test_a_long_line_alone_is_text(kind, part):
    line = part * 20_000
    tokenizer = train_tokenizer([line], vocab_size=300, kind=kind).tokenizer
    ids = tokenizer.encode(line)
    assert tokenizer.decode(ids) == line
    # It was read, not skipped: what it is made of has pieces.
    assert not any(tokenizer.piece(i).startswith("<0x") for i in ids)


@kinds
def test_a_single_character_is_text(kind):
    assert train_tokenizer(["a"], vocab_size=300, kind=kind).tokenizer.encode("a")


@kinds
def test_text_like_marks_in_the_corpus_makes_no_mark(kind):
    text = ["</s> <pad> <sep> <unk> <s> <0x41>"] * 50 + TEXT
    tokenizer = train_tokenizer(text, vocab_size=400, kind=kind).tokenizer
    assert not tokenizer.mark_ids & set(tokenizer.encode(text[0]))
    assert tokenizer.decode(tokenizer.encode(text[0])) == text[0]


def test_nothing_is_printed(capfd):
    train_tokenizer(TEXT, vocab_size=350)
    with pytest.raises(UsageError):
        train_tokenizer(TEXT, vocab_size=20)
    with pytest.raises(DataError):
        train_tokenizer([], vocab_size=20)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("error", [OSError(5, "broken"), KeyboardInterrupt(), DataError("plain")])
def test_what_goes_wrong_while_reading_comes_through(error):
    def broken():
        yield from TEXT
        raise error

    with pytest.raises(type(error)) as caught:
        train_tokenizer(broken(), vocab_size=350)
    assert caught.value is error


def test_an_unknown_kind_is_refused(tmp_path):
    with pytest.raises(ValueError, match="unigram or bpe"):
        train_tokenizer(TEXT, vocab_size=350, kind="word")
    with pytest.raises(ValueError, match="unigram or bpe"):
        cached_tokenizer(pairs_of(3), vocab_size=350, kind="word", cache=TextCache(tmp_path))


def test_progress_is_told():
    told = []
    train_tokenizer(TEXT, vocab_size=350, notify=lambda *what: told.append(what))
    assert told == [("reading text for the vocabulary", 0, 0)]


def pairs_of(n, name="train.en/train.de"):
    return ListedPairs(name, [(TEXT[i % 200], f"{i} {TEXT[-1 - i % 200]}") for i in range(n)])


class ReadOnce(ListedPairs):
    """Counts how often it is read."""

    reads = 0

    def __iter__(self):
        self.reads += 1
        return super().__iter__()


def test_a_cached_tokenizer_is_made_once(tmp_path):
    pairs = ReadOnce("x", list(pairs_of(100)))
    told = []
    made = [
        cached_tokenizer(
            pairs,
            vocab_size=5000,
            cache=TextCache(tmp_path),
            notify=lambda *what: told.append(what),
        )
        for _ in range(2)
    ]
    assert pairs.reads == 1
    assert told == [("reading text for the vocabulary", 0, 200)]
    assert made[0].tokenizer.model == made[1].tokenizer.model
    assert made[0].notices == made[1].notices
    assert "not 5,000" in made[0].notices[0]


def test_a_damaged_tokenizer_in_the_cache_is_made_again(tmp_path):
    first = cached_tokenizer(pairs_of(100), vocab_size=350, cache=TextCache(tmp_path))
    (file,) = tmp_path.glob("*/tokenizer.model")
    file.write_bytes(bytes(len(first.tokenizer.model)))
    again = cached_tokenizer(pairs_of(100), vocab_size=350, cache=TextCache(tmp_path))
    assert again.tokenizer.model == first.tokenizer.model == file.read_bytes()


@pytest.mark.parametrize(
    "other",
    [{"vocab_size": 351}, {"kind": "bpe"}, {"pairs": pairs_of(101)}],
)
def test_other_settings_are_another_entry(tmp_path, other):
    wanted = {"pairs": pairs_of(100), "vocab_size": 350, "kind": "unigram"}
    for settings in (wanted, {**wanted, **other}):
        pairs = settings.pop("pairs")
        cached_tokenizer(pairs, cache=TextCache(tmp_path), **settings)
    assert len(list(tmp_path.glob("tokenizer-*"))) == 2


def test_both_sides_are_in_the_vocabulary(tmp_path):
    pairs = ListedPairs("x", [("left", "жук")] * 20)
    tokenizer = cached_tokenizer(pairs, vocab_size=400, cache=TextCache(tmp_path)).tokenizer
    for text in ("left", "жук"):
        pieces = [tokenizer.piece(i) for i in tokenizer.encode(text)]
        assert "".join(pieces) == f"\u2581{text}"


def test_a_large_corpus_is_thinned_evenly_with_a_notice(tmp_path, monkeypatch):
    monkeypatch.setattr(tokenizer_training, "MAX_PAIRS", 30)
    for n in (30, 31, 59, 60, 100):
        pairs = pairs_of(n)
        used = list(tokenizer_training._both_sides(pairs))
        assert len(used) == 60
        # The numbers that targets begin with are the places of the pairs.
        places = [int(text.split()[0]) for text in used[1::2]]
        gaps = {b - a for a, b in zip([-1, *places], places, strict=False)}
        assert gaps <= {n // 30, n // 30 + 1}
        assert used[0::2] == [TEXT[i % 200] for i in places]
    made = cached_tokenizer(pairs_of(100), vocab_size=297, cache=TextCache(tmp_path))
    assert made.notices == (
        "the vocabulary is made from 30 pairs of train.en/train.de, evenly spaced among its 100",
    )
    assert cached_tokenizer(pairs_of(30), vocab_size=297, cache=TextCache(tmp_path)).notices == ()


def test_blank_pairs_name_the_data(tmp_path):
    with pytest.raises(DataError, match=r"every line of train\.en is blank"):
        cached_tokenizer(
            ListedPairs("train.en", [("", " ")]), vocab_size=300, cache=TextCache(tmp_path)
        )
    assert not list(tmp_path.glob("tokenizer-*"))
