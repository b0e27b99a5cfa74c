"""Recall sequences: what they hold, that nothing but (seed, epoch, id) matters, disjoint splits."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from damcha_core.config.resolve import resolve_mapping
from damcha_core.data.recall import BLANK, HELD_OUT, RecallDataset, RecallSplit, recall_split
from damcha_core.errors import UsageError

FIXED = [
    [8, 25, 13, 31, 5, 19, 7, 24, 7, 8, 5, 13],
    [7, 27, 2, 29, 11, 25, 16, 30, 16, 11, 7, 2],
]
"""The first two sequences of valid with 4 pairs, 12 tokens and a vocabulary of 33."""
FORMS = [(2, 6, 9), (4, 12, 9), (4, 12, 10), (8, 24, 65), (5, 31, 21), (3, 40, 4096)]


def split(name="train", pairs=4, length=12, vocabulary=33, n=100, seed=0):
    return RecallSplit(name, pairs, length, vocabulary, n, seed)


def keys(n, epoch=0):
    return [(epoch, sample) for sample in range(n)]


def looked_up(tokens_N, pairs):
    """The right answers of a sequence, by the definition of the task."""
    shown = dict(zip(tokens_N[0 : 2 * pairs : 2], tokens_N[1 : 2 * pairs : 2], strict=True))
    asked = tokens_N[2 * pairs :]
    return [shown[t] if t != BLANK else BLANK for t in asked]


@pytest.mark.parametrize(("pairs", "length", "vocabulary"), FORMS)
@pytest.mark.parametrize("name", ["train", "valid", "test"])
def test_what_a_sequence_holds(name, pairs, length, vocabulary):
    one = split(name, pairs, length, vocabulary)
    n = (vocabulary - 1) // 2
    for tokens_N, answers_N in zip(*one.draw(keys(60)), strict=True):
        tokens, answers = tokens_N.tolist(), answers_N.tolist()
        shown, values = tokens[0 : 2 * pairs : 2], tokens[1 : 2 * pairs : 2]
        assert len(tokens) == length
        assert len(set(shown)) == len(set(values)) == pairs
        assert all(1 <= key <= n for key in shown)
        assert all(n < value <= 2 * n < vocabulary for value in values)
        asked = [token for token in tokens[2 * pairs :] if token != BLANK]
        assert sorted(asked) == sorted(shown)
        assert answers[: 2 * pairs] == [BLANK] * (2 * pairs)
        assert answers[2 * pairs :] == looked_up(tokens, pairs)
        # no answer stands where it could be copied from without a look-up
        assert not set(tokens[2 * pairs :]) & set(values)


def test_a_leaked_answer_would_be_noticed():
    """The twin of the check above: the value put after its query, as a text would have it."""
    tokens_BN, answers_BN = split().draw(keys(1))
    tokens_BN[0, -1] = answers_BN[0, -2]
    assert set(tokens_BN[0, 8:]) & set(tokens_BN[0, 1:8:2])


def test_queries_and_blanks_stand_in_random_order_at_random_places():
    tokens_BN, answers_BN = split("train", 4, 20, 33).draw(keys(600))
    asked_B12 = answers_BN[:, 8:] != BLANK
    share = asked_B12.mean(axis=0)
    assert np.all(abs(share - 4 / 12) < 5 * np.sqrt(4 / 12 * 8 / 12 / 600))
    first = [tokens[8:][asked][0] for tokens, asked in zip(tokens_BN, asked_B12, strict=True)]
    place = np.array([list(t[0:8:2]).index(f) for t, f in zip(tokens_BN, first, strict=True)])
    assert np.all(abs(np.bincount(place, minlength=4) - 150) < 5 * np.sqrt(600 / 4 * 3 / 4))


def test_all_symbols_are_drawn_alike_and_say_nothing_of_each_other():
    tokens_BN, _ = split("train", 4, 12, 17, 4000).draw(keys(4000))
    counts = np.zeros((8, 8))
    for place in range(0, 8, 2):
        np.add.at(counts, (tokens_BN[:, place] - 1, tokens_BN[:, place + 1] - 9), 1)
    assert counts.sum() == 16_000
    assert np.all(abs(counts - 250) < 5 * np.sqrt(250))


def test_a_sample_depends_on_seed_epoch_and_id_alone():
    one = split(seed=3)
    tokens_BN, answers_BN = one.draw([(2, 7), (2, 8), (3, 7)])
    again, _ = one.draw([(3, 7), (2, 7)])
    assert (again == tokens_BN[[2, 0]]).all()
    assert (one.draw([(2, 8)])[1] == answers_BN[1:2]).all()
    assert not (tokens_BN[0] == tokens_BN[1]).all()
    assert not (tokens_BN[0] == tokens_BN[2]).all()
    assert not (split(seed=4).draw([(2, 7)])[0] == tokens_BN[:1]).all()
    other_size = dataclasses.replace(one, n_samples=7)
    assert (other_size.draw([(2, 7)])[0] == tokens_BN[:1]).all()


@pytest.mark.parametrize("name", ["valid", "test"])
def test_valid_and_test_are_the_same_for_every_seed_and_epoch(name):
    first, _ = split(name, seed=0).draw(keys(50))
    other, _ = split(name, seed=9).draw(keys(50, epoch=5))
    assert (first == other).all()
    assert split(name, seed=0).content_hash() == split(name, seed=9).content_hash()
    assert split(name).content_hash() != split(name, vocabulary=35).content_hash()


def sequences(name, n, epochs=(0,), **more):
    one = split(name, n=n, **more)
    return {row.tobytes() for epoch in epochs for row in one.draw(keys(n, epoch))[0]}


@pytest.mark.parametrize("form", [(2, 6, 9), (3, 9, 9), (4, 12, 33)])
def test_no_sequence_of_a_split_is_in_another(form):
    """By construction: also where there are so few sequences that free draws would meet."""
    more = dict(zip(("pairs", "length", "vocabulary"), form, strict=True))
    valid, test = sequences("valid", 500, **more), sequences("test", 500, **more)
    train = sequences("train", 1500, epochs=range(3), **more)
    assert not valid & test
    assert not train & (valid | test)


def test_free_draws_of_so_small_a_form_do_meet(monkeypatch):
    """The twin: without the classes of the hash the check above fails."""
    everything = {name: set(range(8)) for name in ("train", "valid", "test")}
    monkeypatch.setattr("damcha_core.data.recall._CLASSES_OF_SPLIT", everything)
    more = {"pairs": 2, "length": 6, "vocabulary": 9}
    assert sequences("train", 1500, **more) & sequences("valid", 500, **more)


def test_the_draws_are_fixed():
    """Stored scores are comparable only while the same ids are the same sequences."""
    tokens_BN, _ = split("valid").draw(keys(2))
    assert tokens_BN.tolist() == FIXED


@pytest.mark.parametrize(
    ("pairs", "easy", "expected"),
    [
        (32, 0, [32, 32, 32, 32, 32]),
        (32, 1, [4, 8, 16, 32, 32]),
        (12, 2, [4, 4, 8, 12, 12]),
        (3, 2, [3, 3, 3, 3, 3]),
    ],
)
def test_the_pairs_double_after_the_easy_epochs(pairs, easy, expected):
    one = RecallSplit("train", pairs, 0, 65, 10, easy_epochs=easy)
    assert [one.pairs_of_epoch(epoch) for epoch in range(5)] == expected
    assert one.pairs_of_epoch(10**6) == pairs
    for epoch, n in enumerate(expected):
        tokens_BN, answers_BN = one.draw(keys(3, epoch))
        assert tokens_BN.shape == (3, 3 * n)
        assert ((answers_BN != BLANK).sum(axis=1) == n).all()
    of_fixed_length = dataclasses.replace(one, sequence_length=100)
    assert of_fixed_length.draw(keys(3))[0].shape == (3, 100)


def test_a_batch():
    batch = RecallDataset(split()).__getitems__([(0, 5), (1, 2)])
    assert batch["tokens"].shape == batch["answers"].shape == batch["scored"].shape == (2, 12)
    assert batch["ids"].tolist() == [5, 2]
    assert batch["scored"].sum(dim=1).tolist() == [4, 4]
    assert ((batch["answers"] != BLANK) == batch["scored"]).all()
    assert len(RecallDataset(split())) == 100


def test_the_split_of_settings():
    data = resolve_mapping(
        {"run": {"task": "recall"}, "data": {"n_pairs": 5, "easy_epochs": 0}}
    ).data
    one = recall_split(data, "train", 7)
    assert (one.n_pairs, one.sequence_length, one.seed) == (5, 0, 7)
    assert one.draw(keys(1))[0].shape == (1, 15)
    grown = data.model_copy(update={"easy_epochs": 2})
    assert recall_split(grown, "train", 7, training=True).pairs_of_epoch(0) == 4
    assert recall_split(grown, "train", 7).pairs_of_epoch(0) == 5
    assert len(one) == data.train_samples
    assert len(recall_split(data, "test", 7)) == HELD_OUT
    with pytest.raises(UsageError, match="choose train, valid or test"):
        recall_split(data, "unseen", 0)
