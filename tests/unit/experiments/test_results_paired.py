"""Paired tests against a baseline, beside the same thing done by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from made_studies import MadeStudy

from damcha_core.evaluate.text.bootstrap import resampled_places
from damcha_core.experiments.results.hierarchical import drawn_seeds
from damcha_core.experiments.results.paired import ITEMS_ONLY, SEEDS_THEN_ITEMS, compare
from damcha_core.experiments.results.reading import read_study

N = 200


def comparisons(made: MadeStudy, *, main_only: bool = True, baseline: str = "mha"):
    """All comparisons of a study, few resamples."""
    cells = read_study(made.folder).cells
    return compare(cells, baseline, main_only=main_only, n_resamples=N)


def items_of(run: Path, metric: str) -> np.ndarray:
    """A metric of every item."""
    lines = (run / "samples" / "test.jsonl").read_text().splitlines()
    return np.array([json.loads(line)["scores"][metric] for line in lines])


def rewrite_items(run: Path, change) -> None:
    """Change every line of the items of a run."""
    path = run / "samples" / "test.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        change(record)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def test_one_seed_is_tested_over_its_items(tmp_path) -> None:
    made = MadeStudy(tmp_path / "s", attentions=("mha", "damcha"))
    base = items_of(made.finish("digits-cls-mha-s0", "digits-cls", "mha"), "top1")
    own = items_of(made.finish("digits-cls-damcha-s0", "digits-cls", "damcha", skill=0.75), "top1")
    (one,) = comparisons(made)
    difference = own.mean() - base.mean()
    drawn = []
    for places in resampled_places(len(own), N):
        for row in places:
            drawn.append(np.mean([own[i] for i in row]) - np.mean([base[i] for i in row]))
    as_large = sum(abs(d - difference) >= abs(difference) - 1e-12 for d in drawn)
    assert one.resampled == ITEMS_ONLY
    assert one.difference == pytest.approx(difference)
    assert one.p_value == pytest.approx((1 + as_large) / (1 + N), abs=2.1 / N)
    assert one.interval == pytest.approx((sorted(drawn)[N // 40], sorted(drawn)[-1 - N // 40]))
    assert (one.seeds, one.n_items, one.n_resamples) == ((0,), len(own), N)
    assert one.seed_interval is None
    assert one.p_holm == one.p_value


def test_several_seeds_are_drawn_before_the_items(tmp_path) -> None:
    made = MadeStudy(tmp_path / "s", attentions=("mha", "damcha"), seeds=3)
    base, own = [], []
    for seed in range(3):
        name, task = f"digits-cls-{{}}-s{seed}", "digits-cls"
        run = made.finish(name.format("mha"), task, "mha", seed=seed)
        base.append(items_of(run, "top1"))
        run = made.finish(name.format("damcha"), task, "damcha", seed=seed, skill=0.6)
        own.append(items_of(run, "top1"))
    (one,) = comparisons(made)
    differences = [o.mean() - b.mean() for o, b in zip(own, base, strict=True)]
    counts = drawn_seeds(3, N)
    places = np.concatenate(list(resampled_places(len(own[0]), N)))
    drawn = []
    for row, drawn_counts in zip(places, counts, strict=True):
        chosen = [seed for seed in range(3) for _ in range(drawn_counts[seed])]
        assert len(chosen) == 2
        drawn.append(np.mean([own[s][row].mean() - base[s][row].mean() for s in chosen]))
    difference = np.mean(differences)
    as_large = sum(abs(d - difference) >= abs(difference) for d in drawn)
    assert one.resampled == SEEDS_THEN_ITEMS
    assert one.difference == pytest.approx(difference)
    assert one.interval == pytest.approx((sorted(drawn)[N // 40], sorted(drawn)[-1 - N // 40]))
    assert one.p_value == pytest.approx((1 + as_large) / (1 + N), abs=2.1 / N)
    half = 4.302652730 * np.std(differences, ddof=1) / np.sqrt(3)
    assert one.seed_interval == pytest.approx((difference - half, difference + half))
    assert one.seeds == (0, 1, 2)


def test_bleu_is_tested_as_sacrebleu_does(tmp_path) -> None:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.significance import PairedTest

    made = MadeStudy(tmp_path / "s", tasks=("cldr",), attentions=("mha", "damcha"))
    texts = {}
    for attention, skill in (("mha", 0.55), ("damcha", 0.6)):
        run = made.finish(f"cldr-{attention}-s0", "cldr", attention, skill=skill)
        lines = (run / "samples" / "test.jsonl").read_text().splitlines()
        texts[attention] = [json.loads(line) for line in lines]
    (one,) = comparisons(made)
    systems = [(name, [item["hypothesis"] for item in items]) for name, items in texts.items()]
    references = [[item["references"][0] for item in texts["mha"]]]
    peer = PairedTest(systems, {"bleu": BLEU()}, references, "bs", n_samples=N)()[1]
    baseline, system = peer["BLEU"]
    assert one.baseline_value == pytest.approx(baseline.score)
    assert one.system_value == pytest.approx(system.score)
    assert one.p_value == pytest.approx(system.p_value)


def test_a_pooled_metric_is_made_of_its_sums(tmp_path) -> None:
    made = MadeStudy(tmp_path / "s", tasks=("digits",), attentions=("mha", "damcha"))
    made.finish("digits-mha-s0", "digits", "mha")
    run = made.finish("digits-damcha-s0", "digits", "damcha", skill=0.7)
    rewrite_items(run, lambda record: record["scores"].pop("masked_mse"))
    (one,) = comparisons(made)
    assert one.metric == "masked_mse"
    assert one.verdict == "better"
    assert one.difference is not None
    assert one.difference < 0


def test_a_family_is_a_task_and_a_metric(tmp_path) -> None:
    attentions = ("mha", "damcha", "dcmha")
    made = MadeStudy(tmp_path / "s", tasks=("digits-cls", "digits"), attentions=attentions)
    for task in made.tasks:
        for attention, skill in zip(attentions, (0.5, 0.65, 0.95), strict=True):
            made.finish(f"{task}-{attention}-s0", task, attention, skill=skill)
    found = comparisons(made, main_only=False)
    families: dict[tuple[str, str], list] = {}
    for one in found:
        families.setdefault((one.task, one.metric), []).append(one)
    assert len(families) == 3 + 5
    for family in families.values():
        first, second = sorted(family, key=lambda one: one.p_value)
        assert first.p_holm == pytest.approx(min(1, 2 * first.p_value))
        assert second.p_holm == pytest.approx(max(first.p_holm, second.p_value))
    verdicts = {(one.attention, one.metric): one.verdict for one in found}
    assert verdicts["dcmha", "top1"] == "better"
    assert verdicts["dcmha", "masked_mse"] == "better"
    assert verdicts["dcmha", "top5"] == "no difference shown"


def test_the_same_study_gives_the_same_numbers(tmp_path) -> None:
    made = MadeStudy(tmp_path / "s", attentions=("mha", "damcha"), seeds=2)
    for seed in range(2):
        for attention in made.attentions:
            made.finish(f"digits-cls-{attention}-s{seed}", "digits-cls", attention, seed=seed)
    assert comparisons(made, main_only=False) == comparisons(made, main_only=False)


def other_item(record) -> None:
    record["id"] += 1


def other_score(record) -> None:
    record["scores"]["top1"] = 1 - record["scores"]["top1"] ** 2 / 2


def no_score(record) -> None:
    del record["scores"]["top1"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (other_item, "not scored on the same test items"),
        (other_score, "do not add up"),
        (no_score, "hold nothing"),
        (lambda record: record["scores"].update(top1="x"), "damaged"),
        (lambda record: record.update(scores=1), "missing or damaged"),
    ],
)
def test_no_test_says_why(tmp_path, change, reason) -> None:
    made = MadeStudy(tmp_path / "s", attentions=("mha", "damcha"))
    made.finish("digits-cls-mha-s0", "digits-cls", "mha")
    rewrite_items(made.finish("digits-cls-damcha-s0", "digits-cls", "damcha"), change)
    (one,) = comparisons(made)
    assert (one.p_value, one.p_holm, one.interval) == (None, None, None)
    assert reason in one.reason
    assert one.verdict == f"no test: {one.reason}"
    assert one.difference is not None


def test_only_seeds_that_both_have_are_compared(tmp_path) -> None:
    made = MadeStudy(tmp_path / "s", attentions=("mha", "damcha", "dcmha"), seeds=2)
    made.finish("digits-cls-mha-s0", "digits-cls", "mha")
    for seed in range(2):
        name = f"digits-cls-damcha-s{seed}"
        made.finish(name, "digits-cls", "damcha", seed=seed, skill=0.8)
    made.finish("digits-cls-dcmha-s1", "digits-cls", "dcmha", seed=1)
    first, second = comparisons(made)
    assert (first.seeds, first.resampled) == ((0,), ITEMS_ONLY)
    assert second.verdict == "no test: no seed that both have this score of"


def test_without_its_baseline_a_study_has_no_tests(tmp_path) -> None:
    made = MadeStudy(tmp_path / "s", attentions=("damcha",))
    made.finish("digits-cls-damcha-s0", "digits-cls", "damcha")
    (one,) = comparisons(made)
    assert one.verdict == "no test: mha is not in this study"
    assert comparisons(made, baseline="damcha") == []
