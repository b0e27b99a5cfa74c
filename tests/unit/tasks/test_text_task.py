"""Text tasks: data, loss, facts, and what a run keeps."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tiny_texts import number_pairs, text_config, write_wmt

from damcha_core.data.loader import make_loader
from damcha_core.errors import DataError, UsageError
from damcha_core.tasks.build import build_task
from damcha_core.tasks.text_task import TOKENIZER, TextFacts, TextTask
from damcha_core.train.learner import Learner
from damcha_core.train.precision import Precision


@pytest.fixture
def task(tmp_path: Path) -> Callable[..., TextTask]:
    """Builds a task on the numbers; changes of the settings by dotted key."""
    write_wmt(tmp_path / "data")

    def build(**changes: object) -> TextTask:
        built = build_task(text_config(tmp_path / "data", tmp_path / "run", **changes))
        assert isinstance(built, TextTask)
        return built

    return build


def batches_of(task: TextTask, epoch: int = 0, consumed: int = 0) -> list[dict[str, torch.Tensor]]:
    keys = task.training_batches(epoch, consumed)
    return list(make_loader(task.dataset("train", training=True), keys, 0))


def test_an_epoch_has_every_pair_once_within_both_limits(task: Callable[..., TextTask]) -> None:
    one = task()
    seen = []
    for batch in batches_of(one):
        seen += batch["ids"].tolist()
        rows, longest = len(batch["ids"]), int(batch["n_tokens"].max())
        assert rows <= 16
        assert rows * longest <= 150
    assert sorted(seen) == list(range(80))
    assert [b["ids"].tolist() for b in batches_of(one, 1)] != [
        b["ids"].tolist() for b in batches_of(one, 0)
    ]


def test_an_epoch_goes_on_in_its_middle(task: Callable[..., TextTask]) -> None:
    one = task()
    whole = [batch["ids"].tolist() for batch in batches_of(one)]
    consumed = sum(map(len, whole[:4]))
    assert [batch["ids"].tolist() for batch in batches_of(one, 0, consumed)] == whole[4:]


def test_the_loss_is_that_of_the_written_out_formula(task: Callable[..., TextTask]) -> None:
    one = task(**{"model.dropout": 0.0})
    torch.manual_seed(0)
    model = one.build_model().double().eval()
    batch = batches_of(one)[2]
    found = one.loss(model, batch)
    total, n_scored, smoothing = 0.0, 0, 0.1
    for row, sample in enumerate(batch["ids"].tolist()):
        marks = one.tokenizer
        source, target = (marks.encode(side) for side in number_pairs(80)[sample])
        whole = [marks.bos_id, *source, marks.sep_id, *target, marks.eos_id]
        assert whole[:-1] == batch["tokens"][row, : len(whole) - 1].tolist()
        logits = model(torch.tensor([whole[:-1]]))[0].detach()
        log_p = torch.log_softmax(logits, dim=-1)
        for place in range(len(source) + 1, len(whole) - 1):
            plain, spread = log_p[place, whole[place + 1]], log_p[place].mean()
            total -= float((1 - smoothing) * plain + smoothing * spread)
            n_scored += 1
    assert found.items == n_scored == one.items(batch)
    assert math.isclose(found.total.item(), total, rel_tol=1e-12)


def test_the_source_is_read_and_not_learnt(task: Callable[..., TextTask]) -> None:
    """Gradient reaches no head row but through scored places: compare with the source left out."""
    one = task(**{"model.dropout": 0.0})
    model = one.build_model().double()
    batch = batches_of(one)[0]
    other = dict(batch)
    other["next_tokens"] = torch.where(
        batch["scored"], batch["next_tokens"], torch.randint(0, 300, batch["tokens"].shape)
    )
    assert torch.equal(one.loss(model, batch).total, one.loss(model, other).total)


def test_an_update_is_the_same_in_any_number_of_micro_batches(
    task: Callable[..., TextTask],
) -> None:
    """Eight pairs of very different length at once, or as 4 x 2, or as 2 x 4."""
    one = task(**{"model.dropout": 0.0, "train.horizon_steps": 9, "train.precision": "float64"})
    dataset = one.dataset("train", training=True)
    ids = [0, 4, 10, 9, 5, 14, 1, 19]
    gradients = []
    for size in (8, 4, 2):
        precision = Precision("float64", torch.device("cpu"))
        torch.manual_seed(0)
        learner = Learner(one, one.build_model(), settings=one.config.train, precision=precision)
        batches = [
            dataset.__getitems__([(0, i) for i in ids[start : start + size]])
            for start in range(0, 8, size)
        ]
        update = learner.update(batches, step=1, dropout_seed=0)
        weights = torch.cat([p.detach().flatten() for p in learner.model.parameters()])
        gradients.append((update.loss, update.grad_norm, weights))
    for loss, norm, weights in gradients[1:]:
        assert math.isclose(loss, gradients[0][0], rel_tol=1e-12)
        assert math.isclose(norm, gradients[0][1], rel_tol=1e-10)
        assert torch.allclose(weights, gradients[0][2], rtol=0, atol=1e-9)


def test_sizes_count_real_tokens(task: Callable[..., TextTask]) -> None:
    one = task()
    batch = batches_of(one)[1]
    assert one.size(batch) == sum(one.pairs("train").n_tokens[batch["ids"].numpy()])
    assert one.unit == "tokens"


def test_facts_come_back_and_say_what_the_texts_were(task: Callable[..., TextTask]) -> None:
    one = task()
    facts = one.facts
    assert facts.samples == {"train": 80, "valid": 11, "test": 9}
    assert facts.vocab_size == one.tokenizer.vocab_size
    assert TextFacts.from_mapping(facts.to_mapping()) == facts
    assert set(facts.content) == {"train", "valid", "test"}
    assert one.origin("valid") == {"sha256": facts.content["valid"]}
    assert not one.has_changed("valid")
    assert "train 80 pairs (sha256 " in facts.summary


@pytest.mark.parametrize(
    "damage",
    [
        {"vocab_size": "9"},
        {"vocab_size": 0},
        {"samples": []},
        {"samples": {"train": 1.5}},
        {"content": {"train": 3}},
        {"origin": {"cldr": 48}},
        {"more": 1},
    ],
)
def test_damaged_facts_are_refused(damage: dict[str, object]) -> None:
    good = {"vocab_size": 9, "samples": {"train": 3}, "content": {}, "origin": {}}
    TextFacts.from_mapping(dict(good))
    with pytest.raises((TypeError, ValueError)):
        TextFacts.from_mapping({**good, **damage})


def test_a_stored_tokenizer_is_used_and_none_is_trained(
    task: Callable[..., TextTask], tmp_path: Path
) -> None:
    one = task()
    stored = {TOKENIZER: one.tokenizer.model}
    write_wmt(tmp_path / "other", n_train=5)
    config = text_config(tmp_path / "other", tmp_path / "run")
    again = build_task(config, None, stored)
    assert isinstance(again, TextTask)
    assert again.tokenizer.fingerprint == one.tokenizer.fingerprint
    assert again.assets == stored


def test_pairs_with_a_blank_side_leave_both_sides_and_are_told(
    task: Callable[..., TextTask], tmp_path: Path
) -> None:
    task()
    for name, line in (("train.en", 6), ("train.de", 11), ("valid.de", 0)):
        file = tmp_path / "data" / name
        lines = file.read_text(encoding="utf-8").split("\n")
        lines[line] = "  "
        file.write_text("\n".join(lines), encoding="utf-8")
    one = task()
    assert one.facts.samples == {"train": 78, "valid": 10, "test": 9}
    notices = "\n".join(one.notices)
    assert "2 pairs with a blank side" in notices
    assert "7, 12" in notices
    asked = one.questions("valid")
    wanted = number_pairs(11, 80)[1:]
    assert [(q.source, q.references[0]) for q in asked] == wanted


def test_a_text_of_thousands_of_words_stops_neither_training_nor_validation(
    task: Callable[..., TextTask], tmp_path: Path
) -> None:
    task()
    for split in ("train", "valid"):
        for language, word in (("en", "one"), ("de", "eins")):
            with (tmp_path / "data" / f"{split}.{language}").open("a", encoding="utf-8") as file:
                file.write(" ".join([word] * 5000) + "\n")
    one = task()
    assert one.facts.samples == {"train": 80, "valid": 12, "test": 9}
    assert one.pairs("valid").n_tokens.max() <= 64
    assert len(one.questions("valid")[-1].references[0].split()) == 5000
    notices = "\n".join(one.notices)
    assert "1 pair longer than 64 tokens is left out (line 81)" in notices
    assert "1 pair longer than 64 tokens is cut (line 12)" in notices


def test_nothing_to_score_is_a_data_error(task: Callable[..., TextTask], tmp_path: Path) -> None:
    one = task()
    (tmp_path / "data" / "valid.en").write_text(" \n" * 11, encoding="utf-8")
    with pytest.raises(DataError, match="none of its 11 pairs can be used") as caught:
        one.facts  # noqa: B018 (reading is what fails)
    assert caught.value.exit_code == 3


def test_a_split_that_is_not_there(task: Callable[..., TextTask]) -> None:
    with pytest.raises(UsageError, match="no split 'unseen'"):
        task().pairs("unseen")
