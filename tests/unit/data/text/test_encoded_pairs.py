"""Pairs become token ids once; what is left out is left out on both sides, counted and named."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from damcha_core.data.text import encoded_pairs
from damcha_core.data.text.encoded_pairs import EncodedPairs, encode_pairs
from damcha_core.data.text.pairs import ListedPairs
from damcha_core.data.text.text_cache import TextCache
from damcha_core.data.text.tokenizer_training import train_tokenizer

PAIRS = [(f"the house {i} is old", f"das Haus {i} ist alt und groß") for i in range(60)]
TOKENIZER = train_tokenizer([side for pair in PAIRS for side in pair], vocab_size=320).tokenizer


class CountedPairs(ListedPairs):
    """Counts how often it is read."""

    reads = 0

    def __iter__(self):
        self.reads += 1
        return super().__iter__()


@pytest.fixture
def encode(tmp_path):
    def encode(pairs, max_tokens=100, over_long="drop", **options):
        pairs = pairs if isinstance(pairs, ListedPairs) else ListedPairs("train.en/train.de", pairs)
        options = {"cache": TextCache(tmp_path), **options}
        return encode_pairs(pairs, TOKENIZER, max_tokens=max_tokens, over_long=over_long, **options)

    return encode


def texts_of(encoded):
    return [
        (TOKENIZER.decode(encoded.source(i)), TOKENIZER.decode(encoded.target(i)))
        for i in range(len(encoded))
    ]


def test_pairs_come_back_in_order(encode):
    encoded = encode(PAIRS)
    assert texts_of(encoded) == PAIRS
    assert encoded.lines.tolist() == list(range(60))
    assert encoded.lines.dtype == np.int64
    assert encoded.source(3).tolist() == TOKENIZER.encode(PAIRS[3][0])
    assert encoded.target(3).ndim == 1
    assert encoded.dropped.n_pairs == 60
    assert encoded.notices("x") == []


def test_lengths_are_those_of_whole_sequences(encode):
    encoded = encode(PAIRS)
    lengths = [len(encoded.source(i)) + len(encoded.target(i)) + 3 for i in range(60)]
    assert encoded.n_tokens.tolist() == lengths
    assert encoded.n_source.tolist() == [len(encoded.source(i)) for i in range(60)]
    assert encoded.n_tokens.dtype == np.int32


def test_ids_can_be_written_to(encode):
    ids = encode(PAIRS).source(0)
    ids[0] = 7
    assert encode(PAIRS).source(0)[0] != 7


def test_a_pair_that_does_not_exist_is_refused(encode):
    encoded = encode(PAIRS)
    for wrong in (-1, 60):
        with pytest.raises(IndexError):
            encoded.source(wrong)
        with pytest.raises(IndexError):
            encoded.target(wrong)


def test_a_second_time_nothing_is_read(encode):
    pairs = CountedPairs("x", PAIRS)
    told = []
    for _ in range(2):
        encoded = encode(pairs, notify=lambda *what: told.append(what))
        assert texts_of(encoded) == PAIRS
    assert pairs.reads == 1
    assert told == [("encoding x", 0, 60)]


@pytest.mark.parametrize(
    "other",
    [{"max_tokens": 99}, {"over_long": "cut"}, {"pairs": CountedPairs("x", PAIRS[1:])}],
)
def test_other_settings_are_encoded_anew(encode, other):
    pairs = CountedPairs("x", PAIRS)
    settings = {"pairs": pairs, "max_tokens": 100, "over_long": "drop"}
    encode(**settings)
    encode(**{**settings, **other})
    assert pairs.reads + CountedPairs.reads + getattr(other.get("pairs"), "reads", 0) == 2


def test_another_tokenizer_is_encoded_anew(tmp_path):
    pairs = CountedPairs("x", PAIRS)
    other = train_tokenizer(["abc"], vocab_size=270).tokenizer
    for tokenizer in (TOKENIZER, other):
        encoded = encode_pairs(pairs, tokenizer, max_tokens=300, cache=TextCache(tmp_path))
        assert tokenizer.decode(encoded.target(1)) == PAIRS[1][1]
    assert pairs.reads == 2


@pytest.mark.parametrize("blank", ["", " ", "\t \u3000", "\u2028"])
def test_a_blank_side_drops_both_and_is_counted(encode, blank):
    pairs = list(PAIRS)
    pairs[0] = (blank, "x")
    pairs[6] = ("x", blank)
    pairs[59] = (blank, blank)
    encoded = encode(pairs)
    assert texts_of(encoded) == PAIRS[1:6] + PAIRS[7:59]
    assert encoded.lines.tolist() == [*range(1, 6), *range(7, 59)]
    assert encoded.dropped.n_blank == 3
    assert encoded.dropped.blank_lines == (1, 7, 60)
    assert encoded.notices("train.en/train.de") == [
        "train.en/train.de: 3 pairs with a blank side are left out (lines 1, 7, 60)"
    ]


def test_a_single_pair_is_told_in_the_singular(encode):
    assert encode([("", "x"), *PAIRS]).notices("n") == [
        "n: 1 pair with a blank side is left out (line 1)"
    ]


def test_five_lines_are_named(encode):
    encoded = encode([("", "x")] * 7 + PAIRS)
    assert encoded.dropped.blank_lines == (1, 2, 3, 4, 5)
    assert encoded.notices("n")[0].endswith("(lines 1, 2, 3, 4, 5, ...)")


LONG = [("old " * 50, "alt"), ("old", "alt " * 50), ("old " * 50, "alt " * 50)]


def test_over_long_pairs_are_dropped_and_counted(encode):
    encoded = encode([PAIRS[0], *LONG, PAIRS[1]], max_tokens=60)
    assert texts_of(encoded) == PAIRS[:2]
    assert encoded.lines.tolist() == [0, 4]
    assert encoded.dropped.n_over_long == 3
    assert encoded.notices("n") == ["n: 3 pairs longer than 60 tokens are left out (lines 2, 3, 4)"]


def test_a_sequence_of_exactly_the_limit_is_kept_whole(encode):
    longest = int(encode(PAIRS).n_tokens.max())
    assert len(encode(PAIRS, max_tokens=longest)) == 60
    encoded = encode(PAIRS, max_tokens=longest - 1)
    assert len(encoded) == 60 - encoded.dropped.n_over_long < 60
    assert encoded.n_tokens.max() == longest - 1 or encoded.dropped.n_over_long


@pytest.mark.parametrize("max_tokens", [5, 6, 7, 20, 61])
def test_over_long_pairs_are_cut_to_the_limit(encode, max_tokens):
    encoded = encode([*LONG, *PAIRS], max_tokens=max_tokens, over_long="cut")
    assert len(encoded) == 63
    left = max_tokens - 3
    for i, (source, target) in enumerate([*LONG, *PAIRS]):
        whole = [TOKENIZER.encode(source), TOKENIZER.encode(target)]
        cut = [encoded.source(i).tolist(), encoded.target(i).tolist()]
        sizes = [len(ids) for ids in cut]
        assert all(n >= 1 for n in sizes)
        assert cut == [ids[:n] for ids, n in zip(whole, sizes, strict=True)]
        assert sum(sizes) == min(left, sum(map(len, whole)))
        # A source has at most half unless the target leaves more.
        assert sizes[0] <= max(left // 2, left - len(whole[1]))
        assert sizes[1] == len(whole[1]) or sizes[0] <= left // 2
    assert encoded.notices("n")[0].startswith(f"n: {encoded.dropped.n_over_long} pairs longer than")
    assert "tokens are cut (lines 1, 2, 3" in encoded.notices("n")[0]


@pytest.mark.parametrize("pairs", [[], [("", "x")], [("x " * 100, "y")]])
def test_nothing_left_is_an_empty_result(encode, pairs):
    for _ in range(2):
        encoded = encode(pairs, max_tokens=10)
        assert len(encoded) == 0
        assert encoded.n_tokens.shape == encoded.n_source.shape == encoded.lines.shape == (0,)
        assert encoded.dropped.n_pairs == len(pairs)
        assert pickle.loads(pickle.dumps(encoded)).n_tokens.shape == (0,)


@pytest.mark.parametrize("threads", [1, 3])
def test_chunks_and_threads_do_not_change_the_result(encode, tmp_path, monkeypatch, threads):
    pairs = [*PAIRS[:5], ("", "x"), *LONG, *PAIRS[5:], (" ", "")]
    whole = encode(pairs, max_tokens=60)
    monkeypatch.setattr(encoded_pairs, "_CHUNK_PAIRS", 7)
    told = []
    parts = encode(
        pairs,
        max_tokens=60,
        threads=threads,
        cache=TextCache(tmp_path / "other"),
        notify=lambda *what: told.append(what),
    )
    assert texts_of(parts) == texts_of(whole) == PAIRS
    assert parts.dropped == whole.dropped
    assert parts.dropped.blank_lines == (6, 65)
    assert parts.lines.tolist() == whole.lines.tolist()
    assert [done for _, done, _ in told] == list(range(0, 65, 7))
    assert {total for _, _, total in told} == {65}


def test_a_large_vocabulary_has_room_for_its_ids(tmp_path):
    class Wide:
        """A tokenizer of more ids than 16 bits hold."""

        vocab_size = 70_000
        fingerprint = "wide"

        def encode_all(self, texts, threads):
            return [[69_999, len(text)] for text in texts]

    encoded = encode_pairs(
        ListedPairs("x", PAIRS), Wide(), max_tokens=99, cache=TextCache(tmp_path)
    )
    assert encoded.source(5).tolist() == [69_999, len(PAIRS[5][0])]
    (file,) = tmp_path.glob("*/tokens.npy")
    assert np.load(file, allow_pickle=False).dtype == np.dtype("<i4")


def test_the_files_are_plain_arrays(encode, tmp_path):
    encoded = encode(PAIRS)
    arrays = {file.stem: np.load(file, allow_pickle=False) for file in tmp_path.glob("*/*.npy")}
    assert arrays["tokens"].dtype == np.dtype("<u2")
    assert arrays["bounds"].dtype == arrays["lines"].dtype == np.int64
    assert len(arrays["bounds"]) == 2 * len(arrays["lines"]) + 1
    assert arrays["bounds"][-1] == len(arrays["tokens"]) == encoded.n_tokens.sum() - 3 * 60
    assert encoded.nbytes == sum(array.nbytes for array in arrays.values())


def test_damage_is_encoded_again(encode, tmp_path):
    pairs = CountedPairs("x", PAIRS)
    encode(pairs)
    (file,) = tmp_path.glob("*/tokens.npy")
    file.write_bytes(file.read_bytes()[:-10])
    assert texts_of(encode(pairs)) == PAIRS
    assert pairs.reads == 2


def test_a_pickle_holds_the_place_and_not_the_ids(encode):
    encoded = encode(PAIRS)
    sent = pickle.dumps(encoded)
    assert len(sent) < 2000
    again = pickle.loads(sent)
    assert isinstance(again, EncodedPairs)
    assert texts_of(again) == PAIRS
    assert again.dropped == encoded.dropped


def test_odd_characters_in_the_path_work(encode, tmp_path):
    folder = tmp_path / "données, test 1" / "äöü #2"
    assert texts_of(encode(PAIRS, cache=TextCache(folder))) == PAIRS


def test_an_error_while_reading_leaves_nothing(encode, tmp_path):
    class Broken(CountedPairs):
        def __iter__(self):
            yield from PAIRS
            raise OSError(5, "broken")

    with pytest.raises(OSError, match="broken"):
        encode(Broken("x", PAIRS))
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    assert texts_of(encode(CountedPairs("x", PAIRS))) == PAIRS


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"max_tokens": 4}, "max_tokens must be at least 5"),
        ({"over_long": "keep"}, "drop or cut"),
        ({"threads": 0}, "threads must be at least 1"),
    ],
)
def test_wrong_settings_are_refused(encode, wrong, named):
    with pytest.raises(ValueError, match=named):
        encode(PAIRS, **wrong)
