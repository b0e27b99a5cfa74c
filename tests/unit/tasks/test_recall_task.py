"""The recall task: its loss against a slow reference, its facts, and what settings it refuses."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

from damcha_core.catalog.attentions import attention_rows
from damcha_core.catalog.controls import control_rows
from damcha_core.config.added_keys import ADDED_KEYS
from damcha_core.config.consistency import notices
from damcha_core.config.controls import as_built
from damcha_core.config.identity import config_hash, flat
from damcha_core.config.model_size import mean_tokens, model_multiply_adds, model_parameters
from damcha_core.config.resolve import resolve_mapping
from damcha_core.config.schema import AttentionSection, RunConfig
from damcha_core.data.recall import HELD_OUT
from damcha_core.errors import ConfigError
from damcha_core.profiling.operations import counted_operations
from damcha_core.tasks.build import build_task
from damcha_core.tasks.recall import RecallFacts, RecallTask

SMALL = {"d_model": 16, "n_heads": 4, "d_ff": 20, "n_layers": 2}
NAMES = [row.name for row in (*attention_rows(), *control_rows())]


def config(attention="mha", **sections):
    options = {"name": attention}
    if attention.startswith("damcha") and "static" not in attention:
        options["mlp_hidden"] = [5]
    given = {"run": {"task": "recall"}, "model": SMALL, "attention": options}
    return resolve_mapping(
        {
            **given,
            "data": {"n_pairs": 3, "vocab_size": 21, "train_samples": 10, "easy_epochs": 0},
            **sections,
        }
    )


def recall(attention="mha", **sections) -> RecallTask:
    task = build_task(config(attention, **sections))
    assert isinstance(task, RecallTask)
    return task


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_that_of_a_slow_reference(smoothing):
    task = recall(train={"label_smoothing": smoothing})
    model = task.build_model().double().eval()
    batch = task.dataset("train", training=True).__getitems__([(0, i) for i in range(4)])
    found = task.loss(model, batch)
    total, items = 0.0, 0
    for row, tokens in enumerate(batch["tokens"].tolist()):
        values = dict(pairwise(tokens[:6]))
        logits = model(torch.tensor([tokens]))[0].tolist()
        for place, asked in enumerate(tokens):
            if place < 6:
                assert not batch["scored"][row, place]
                continue
            scores = logits[place]
            normaliser = math.log(math.fsum(map(math.exp, scores)))
            losses = [normaliser - score for score in scores]
            total += (1 - smoothing) * losses[values[asked]] + smoothing * sum(losses) / len(losses)
            items += 1
    assert found.items == task.items(batch) == items == 12
    assert found.total.item() == pytest.approx(total, rel=1e-12)


def test_the_answer_is_no_input_of_its_query():
    """A causal model: what comes after a query moves nothing, and no value stands behind the
    pairs, so a query can be answered from the pairs alone."""
    task = recall()
    model = task.build_model().double().eval()
    batch = task.dataset("valid", training=False).__getitems__([(0, 0)])
    tokens = batch["tokens"]
    changed = tokens.clone()
    changed[:, 7:] = 1
    assert (model(tokens)[:, :7] - model(changed)[:, :7]).abs().max() < 1e-12
    assert not set(tokens[0, 6:].tolist()) & set(tokens[0, 1:6:2].tolist())


def test_facts_keep_what_the_sequences_were():
    facts = recall().facts
    assert facts.samples == {"train": 10, "valid": HELD_OUT, "test": HELD_OUT}
    assert facts.vocab_size == 21
    assert set(facts.content) == {"valid", "test"}
    assert facts == recall(run={"task": "recall", "seed": 5}).facts
    assert facts != recall(data={"n_pairs": 4, "vocab_size": 21, "train_samples": 10}).facts
    assert RecallFacts.from_mapping(facts.to_mapping()) == facts
    assert "valid 512 sequences (sha256 " in facts.summary
    assert not recall().has_changed("train")


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        ({"vocab_size": 0}, ValueError),
        ({"vocab_size": "21"}, TypeError),
        ({"samples": [1]}, TypeError),
        ({"samples": {"train": 0}}, ValueError),
        ({"content": {"valid": 1}}, TypeError),
        ({"unknown": 1}, TypeError),
    ],
)
def test_damaged_facts_are_refused(damage, error):
    mapping = recall().facts.to_mapping()
    with pytest.raises(error):
        RecallFacts.from_mapping({**mapping, **damage})
    mapping.pop("vocab_size")
    with pytest.raises(KeyError):
        RecallFacts.from_mapping(mapping)


def test_every_epoch_has_every_sample_once_and_goes_on_in_the_middle():
    task = recall(train={"batch_size": 4})
    whole = task.training_batches(2, 0)
    assert sorted(key for batch in whole for key in batch) == [(2, i) for i in range(10)]
    assert [len(batch) for batch in whole] == [4, 4, 2]
    assert task.training_batches(2, 4) == whole[1:]
    assert task.training_batches(3, 0) != whole
    assert sum(map(len, task.evaluation_batches("test", 100))) == HELD_OUT


def test_impossible_settings_are_refused_all_at_once():
    with pytest.raises(ConfigError) as caught:
        config(
            model={**SMALL, "causal": False},
            data={"n_pairs": 40, "sequence_length": 100, "vocab_size": 64},
            train={"batch_tokens": 100},
        )
    text = str(caught.value)
    assert caught.value.exit_code == 2
    assert len(caught.value.problems) == 4
    assert "task recall answers from what came before" in text
    assert "train.batch_tokens = 100 has no effect with task recall" in text
    assert "data.vocab_size = 64 is too small" in text
    assert "give 81 or more" in text
    assert "data.sequence_length = 100 is too short" in text
    assert "take 120 tokens" in text


@pytest.mark.parametrize(
    ("data", "accepted"),
    [
        ({"n_pairs": 2, "vocab_size": 8}, False),
        ({"n_pairs": 2, "vocab_size": 9}, True),
        ({"n_pairs": 10, "vocab_size": 20}, False),
        ({"n_pairs": 10, "vocab_size": 21}, True),
        ({"n_pairs": 4, "sequence_length": 11}, False),
        ({"n_pairs": 4, "sequence_length": 12}, True),
        ({"n_pairs": 1}, False),
    ],
)
def test_the_limits_of_the_settings(data, accepted):
    if accepted:
        build_task(config(data=data)).facts  # noqa: B018 (it draws the sequences)
    else:
        with pytest.raises(ConfigError):
            config(data=data)


def test_training_that_never_shows_all_pairs_is_a_notice():
    def lines(easy, epochs, pairs=16):
        data = {"n_pairs": pairs, "easy_epochs": easy}
        return notices(config(data=data, train={"epochs": epochs, "warmup_steps": 0}))

    assert lines(0, 1) == []
    assert lines(2, 4) == []
    (line,) = lines(2, 3)
    assert line == (
        "train.epochs 3 end before training shows data.n_pairs = 16 pairs: with "
        "data.easy_epochs = 2 that takes 4"
    )
    assert lines(5, 5, pairs=3) == []
    assert len(lines(5, 4, pairs=3)) == 1


@pytest.mark.parametrize("name", NAMES)
def test_sizes_and_costs_are_those_of_the_built_model(name):
    chosen = config(name, data={"n_pairs": 5, "vocab_size": 21})
    assert mean_tokens(chosen) == 15
    task = build_task(chosen)
    model, built = task.build_model().eval(), as_built(chosen)
    assert model_parameters(built, vocab_size=21) == sum(p.numel() for p in model.parameters())
    tokens = task.dataset("valid", training=False).__getitems__([(0, 0)])["tokens"]
    with torch.no_grad():
        counted = counted_operations(lambda: model(tokens)) // 2
    stated = model_multiply_adds(built, vocab_size=21)
    if "geometric" in name:  # grouped products carry zeros along
        assert stated <= counted <= 1.1 * stated
    else:
        assert stated == counted


def test_a_run_of_before_recall_keeps_its_hash():
    """Checkpoints and studies name this hash; a new key must not make them other runs."""
    before = "34bf986f753c12aead0453c0374ee9a7cd3cd0cefdada823d4fb2b7a5c0428e6"
    plain = RunConfig(attention=AttentionSection(name="mha", options=None))
    assert config_hash(plain) == before
    later = {key: value for key, value in ADDED_KEYS.items() if key.startswith("data.")}
    assert {key: flat(plain)[key] for key in later} == later
    for key in ("n_pairs", "sequence_length", "train_samples", "easy_epochs"):
        data = plain.data.model_copy(update={key: 77})
        assert config_hash(plain.model_copy(update={"data": data})) != before
