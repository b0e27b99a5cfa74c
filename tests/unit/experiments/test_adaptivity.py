"""What the metrics of a run do: nothing at the identity, something elsewhere, as defined."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import tiny_config
from tiny_texts import text_config, write_wmt
from torch import Tensor, nn

from damcha_core.attention.damcha import DamchaAttention
from damcha_core.config.schema import RunConfig
from damcha_core.errors import UsageError
from damcha_core.experiments.adaptivity import ADAPTIVITY_FILE, analyse, store
from damcha_core.experiments.adaptivity.attention_watch import AttentionWatch, prefix_lengths
from damcha_core.experiments.adaptivity.sampled_batches import partners, sampled_keys
from damcha_core.tasks.build import build_task
from damcha_core.train.run_folder import RunFolder
from damcha_core.train.trained_run import TrainedRun

STRUCTURES = ("full", "symmetric", "psd", "low_rank", "diagonal", "block_diagonal")
DAMCHA: dict[str, object] = {"attention.name": "damcha", "attention.mlp_hidden": [8]}


def fresh(config: RunConfig) -> TrainedRun:
    """A run as `load_run` gives it, with the weights it would begin with."""
    torch.manual_seed(0)
    task = build_task(config)
    model = task.build_model().double().eval()
    with torch.no_grad():  # far from 0, where biases and the mask token begin
        for name, parameter in model.named_parameters():
            if "generator" not in name and "shared" not in name:
                parameter += 0.3 * torch.randn_like(parameter)
    return TrainedRun(RunFolder(Path("runs/x")), config, config, task, model, "step-0", 0)


def picture_run(**changes: object) -> TrainedRun:
    return fresh(tiny_config(Path("unused"), **{**DAMCHA, **changes}))


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("texts")
    write_wmt(root)
    return root


def text_run(texts: Path, **changes: object) -> TrainedRun:
    return fresh(text_config(texts, Path("unused"), **{**DAMCHA, **changes}))


def heads(record: dict[str, Any]) -> list[dict[str, Any]]:
    return [head for layer in record["layers"] for head in layer["heads"]]


@pytest.mark.parametrize("structure", STRUCTURES)
def test_at_the_identity_nothing_moves(structure):
    run = picture_run(**{"attention.init": "identity", "attention.structure": structure})
    record = analyse(run)
    for head in heads(record):
        assert head["explained_share"] == head["explained_share_of_change"] == 0.0
        assert head["input_deviation"] == head["change_norm"] == 0.0
        assert head["antisymmetric_norm"] == 0.0
        assert head["largest_score"] > 0.0
    loss = record["swap"]["loss"]
    assert loss["difference"] == loss["standard_error"] == 0.0
    assert record["swap"]["metric"]["own"] == record["swap"]["metric"]["swapped"]


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("task", ["cifar10", "cifar10-cls"])
def test_elsewhere_the_input_moves_metrics_and_scores(structure, task):
    run = picture_run(
        **{
            "run.task": task,
            "attention.init": "random",
            "attention.structure": structure,
            "attention.share": False,
        }
    )
    record = analyse(run)
    json.dumps(record, allow_nan=False)
    assert (record["causal"], record["sequences"]) == (False, 5)
    for head in heads(record):
        assert 0.0 < head["explained_share"] < 1.0
        assert 0.0 < head["explained_share_of_change"] < 1.0
        assert head["length_share_of_change"] == 0.0
    assert record["swap"]["loss"]["difference"] != 0.0
    spec = run.task.row.main_metric
    assert record["swap"]["metric"]["name"] == spec.name


def test_the_numbers_of_a_head_are_those_of_the_definition():
    run = picture_run(**{"attention.init": "random"})
    record = analyse(run, "train", 40)
    keys = [key for batch in sampled_keys(run.task, "train", 40) for key in batch]
    batch = run.task.dataset("train", training=False).__getitems__(keys)
    seen: list[Tensor] = []
    layer = AttentionWatch(run.model).layers[1]
    layer.register_forward_pre_hook(lambda _layer, tokens: seen.append(tokens[0]))
    with torch.no_grad():
        run.model(batch["images"].double(), batch["hidden"])
        m_BHKK = layer.head_metrics(seen[0])
        x_BHNK = layer.split_heads(seen[0])
        scores_BHNN = x_BHNK @ m_BHKK @ x_BHNK.mT / 2.0  # the root of K = 4
    mean = m_BHKK.mean(0)
    within = (m_BHKK - mean).square().sum((2, 3)).mean(0)
    departure = (m_BHKK - torch.eye(4)).square().sum((2, 3)).mean(0)
    for place, head in enumerate(record["layers"][1]["heads"]):
        whole = m_BHKK[:, place].square().sum((1, 2)).mean()
        expected = {
            "explained_share": within[place] / whole,
            "explained_share_of_change": within[place] / departure[place],
            "symmetric_norm": (mean[place] + mean[place].mT).norm() / 2,
            "antisymmetric_norm": (mean[place] - mean[place].mT).norm() / 2,
            "largest_score": scores_BHNN[:, place].abs().max(),
            "mean_norm": mean[place].norm(),
        }
        for name, value in expected.items():
            assert head[name] == pytest.approx(float(value), rel=1e-9), name
        singular = torch.linalg.svdvals(mean[place]).tolist()
        assert head["singular_values"] == pytest.approx(singular)
        torch.testing.assert_close(
            torch.tensor(head["mean_metric"]).double(), mean[place], rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("refresh", ["token", 3, "geometric"])
def test_texts_move_prefix_by_prefix(texts, refresh):
    changes: dict[str, object] = {"attention.refresh": refresh}
    random = analyse(text_run(texts, **changes, **{"attention.init": "random"}))
    assert random["causal"] is True
    assert random["swap"]["metric"]["name"] == "perplexity"
    for head in heads(random):
        assert 0.0 < head["explained_share"] < 1.0
        assert 0.0 < head["length_share_of_change"] < 1.0
    assert random["swap"]["loss"]["difference"] != 0.0
    identity = analyse(text_run(texts, **changes, **{"attention.init": "identity"}))
    assert all(head["explained_share"] == 0.0 for head in heads(identity))
    assert identity["swap"]["loss"]["difference"] == pytest.approx(0.0, abs=1e-12)


def test_the_own_scores_are_those_of_an_evaluation(texts):
    for run in (picture_run(**{"attention.init": "random"}), text_run(texts)):
        record = analyse(run, "valid", 1000)
        evaluation, _ = run.evaluate("valid")
        assert record["swap"]["loss"]["own"] == pytest.approx(evaluation.loss, rel=1e-10)


class Pass:
    """A language model's hidden states with own and with swapped metrics."""

    def __init__(self, model: nn.Module, tokens_BN: Tensor, n_real: list[int]) -> None:
        watch = AttentionWatch(model)
        with torch.no_grad():
            with watch.watching(n_real):
                self.own_BND = model.hidden(tokens_BN)
            with watch.swapped(partners(len(tokens_BN))):
                self.swapped_BND = model.hidden(tokens_BN)
        self.largest_score = watch.largest_score


@pytest.mark.parametrize("refresh", ["token", "geometric"])
def test_a_query_gets_the_metric_of_the_others_prefix_and_of_no_pad(texts, refresh):
    run = text_run(texts, **{"attention.init": "random", "attention.refresh": refresh})
    tokens_BN = torch.randint(5, 300, (2, 9), generator=torch.Generator().manual_seed(1))
    tokens_BN[1, :4] = tokens_BN[0, :4]
    first = Pass(run.model, tokens_BN, [9, 6])
    moved_BN = (first.own_BND - first.swapped_BND).abs().amax(-1)
    assert float(moved_BN[:, :4].max()) < 1e-12  # alike so far, so the metrics are
    assert float(moved_BN[:, 4:].min()) > 1e-6
    tokens_BN[1, 6:] = tokens_BN[1, 6:].flip(0) + 3  # other pads behind the shorter one
    second = Pass(run.model, tokens_BN, [9, 6])
    assert torch.equal(second.swapped_BND[0], first.swapped_BND[0])
    torch.testing.assert_close(second.largest_score, first.largest_score)
    broken = Pass(run.model, tokens_BN, [9, 9])  # who takes the pads for tokens sees them
    assert not torch.equal(broken.swapped_BND[0], first.swapped_BND[0])


def test_no_trace_is_left_in_the_model():
    run = picture_run(**{"attention.init": "random"})
    before = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    first = analyse(run)
    assert analyse(run) == first
    assert all(torch.equal(before[name], t) for name, t in run.model.state_dict().items())
    for part in run.model.modules():
        assert not part._forward_pre_hooks


@pytest.mark.parametrize("name", ["damcha-static", "damcha-static-unshared"])
def test_a_static_metric_has_no_adaptation(name):
    changes: dict[str, object] = {"attention.name": name, "attention.mlp_hidden": None}
    config = tiny_config(Path("unused"), **changes)
    with pytest.raises(UsageError, match=r"are parameters.*there is no adaptation to look at"):
        analyse(fresh(config))


def test_other_attentions_generate_no_metrics():
    run = picture_run()
    run.model.transformer.blocks = nn.ModuleList()
    with pytest.raises(UsageError, match=r"generates no metrics.*a run of damcha"):
        analyse(run)


@pytest.mark.parametrize("n_samples", [0, 1])
def test_one_sequence_has_nobody_to_swap_with(n_samples):
    with pytest.raises(UsageError, match="takes at least two"):
        analyse(picture_run(), "valid", n_samples)


@pytest.mark.parametrize(("n", "sizes"), [(2, [2]), (33, [33]), (34, [32, 2]), (99, [32, 13])])
def test_samples_are_spread_evenly_and_nobody_is_alone(n, sizes):
    keys = sampled_keys(picture_run().task, "train", n)
    assert [len(batch) for batch in keys] == sizes
    ids = [sample for batch in keys for _, sample in batch]
    n = min(n, 45)
    assert ids == [place * 45 // n for place in range(n)]


@pytest.mark.parametrize("n", range(2, 34))
def test_partners_are_a_permutation_without_a_fixed_point(n):
    rows = partners(n)
    assert sorted(rows) == list(range(n))
    assert all(row != place for place, row in enumerate(rows))


def test_prefixes_double():
    assert [prefix_lengths(n) for n in (1, 2, 7, 8)] == [[1], [2], [2, 4], [2, 4, 8]]


def test_the_record_lands_in_the_run_folder(tmp_path):
    record = analyse(picture_run(**{"attention.init": "random"}))
    assert store(tmp_path, record) == tmp_path / ADAPTIVITY_FILE
    assert json.loads((tmp_path / ADAPTIVITY_FILE).read_text(encoding="utf-8")) == record


def test_the_causal_picture_model_has_prefixes_too():
    record = analyse(picture_run(**{"attention.init": "random", "model.causal": True}))
    assert record["causal"] is True
    assert all(0.0 < head["length_share_of_change"] < 1.0 for head in heads(record))
    assert record["swap"]["loss"]["difference"] != 0.0


def test_a_shared_generator_is_watched_in_every_layer():
    run = picture_run(**{"attention.init": "random", "attention.share": True})
    layers = AttentionWatch(run.model).layers
    assert len(layers) == 2
    assert all(isinstance(layer, DamchaAttention) for layer in layers)
    first, second = (layer["heads"] for layer in analyse(run)["layers"])
    assert first != second
