"""Encoded pairs as batches: what is read, what is scored."""

from __future__ import annotations

import torch
from tiny_texts import number_pairs

from damcha_core.data.text.encoded_pairs import EncodedPairs, encode_pairs
from damcha_core.data.text.pairs import ListedPairs
from damcha_core.data.text.text_cache import TextCache
from damcha_core.data.text.text_dataset import TextDataset
from damcha_core.data.text.tokenizer import Tokenizer
from damcha_core.data.text.tokenizer_training import train_tokenizer

PAIRS = number_pairs(23)


def encoded() -> tuple[EncodedPairs, Tokenizer]:
    texts = [side for pair in PAIRS for side in pair]
    tokenizer = train_tokenizer(texts, vocab_size=310).tokenizer
    source = ListedPairs("numbers", PAIRS)
    pairs = encode_pairs(source, tokenizer, max_tokens=64, over_long="drop", cache=TextCache())
    return pairs, tokenizer


def test_a_row_is_its_pair_between_the_marks() -> None:
    pairs, marks = encoded()
    ids = [4, 0, 17, 2]
    batch = TextDataset(pairs, marks).__getitems__([(0, i) for i in ids])
    assert batch["ids"].tolist() == ids
    for row, sample in enumerate(ids):
        source, target = (marks.encode(side) for side in PAIRS[sample])
        whole = [marks.bos_id, *source, marks.sep_id, *target, marks.eos_id]
        n = len(whole)
        assert batch["n_tokens"][row] == n
        assert batch["tokens"][row, : n - 1].tolist() == whole[:-1]
        assert batch["next_tokens"][row, : n - 1].tolist() == whole[1:]
        assert set(batch["next_tokens"][row, n - 1 :].tolist()) <= {marks.pad_id}
        scored = batch["next_tokens"][row][batch["scored"][row]]
        assert scored.tolist() == [*target, marks.eos_id]


def test_padding_is_never_scored_and_the_end_mark_always() -> None:
    pairs, marks = encoded()
    batch = TextDataset(pairs, marks).__getitems__([(0, i) for i in range(len(pairs))])
    scored = batch["next_tokens"][batch["scored"]]
    assert not (scored == marks.pad_id).any()
    assert int((scored == marks.eos_id).sum()) == len(pairs)
    assert marks.pad_id not in (marks.eos_id, marks.unk_id, marks.bos_id, marks.sep_id)


def test_the_epoch_changes_nothing_and_neighbours_only_the_padding() -> None:
    pairs, marks = encoded()
    data = TextDataset(pairs, marks)
    first, second = data.__getitems__([(0, 3), (0, 9)]), data.__getitems__([(7, 3), (7, 9)])
    assert all(torch.equal(first[name], second[name]) for name in first)
    alone = data.__getitems__([(0, 3)])
    n = alone["tokens"].shape[1]
    assert torch.equal(first["tokens"][0, :n], alone["tokens"][0])
    assert torch.equal(first["scored"][0, :n], alone["scored"][0])
    assert not first["scored"][0, n:].any()
