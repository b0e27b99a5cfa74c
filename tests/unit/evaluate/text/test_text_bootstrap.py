"""Intervals and paired tests: draws, the rules of sacrebleu, extremes."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from sacrebleu.significance import PairedTest

from damcha_core.evaluate.text.bootstrap import (
    central_interval,
    paired_test,
    resampled_places,
    resampled_values,
    with_interval,
)
from damcha_core.evaluate.text.caption_bleu import caption_bleu
from damcha_core.evaluate.text.perplexity import perplexity
from damcha_core.evaluate.text.sacrebleu_scores import (
    NAMES,
    metric_of,
    reference_streams,
    sacrebleu_score,
)
from damcha_core.evaluate.text.text_score import TextScore, mean_score

WORDS = ["the", "a", "dog", "cat", "runs", "over", "old", "new", "bridge", "and", "house", "sun"]


def noisy(texts: list[str], share: float, seed: int) -> list[str]:
    """Texts with a share of the words replaced."""
    draw = random.Random(seed)
    return [
        " ".join(draw.choice(WORDS) if draw.random() < share else w for w in text.split())
        for text in texts
    ]


def sentences(n: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(4, 12))) for _ in range(n)]


def mean_of(values: list[float | None]) -> TextScore:
    return mean_score(values, signature="mean")


@pytest.mark.parametrize("like_sacrebleu", [False, True])
def test_draws_depend_on_neither_chunk_nor_number_of_resamples(like_sacrebleu: bool) -> None:
    def drawn(n_resamples: int, n_chunk: int) -> np.ndarray:
        chunks = resampled_places(7, n_resamples, like_sacrebleu=like_sacrebleu, n_chunk=n_chunk)
        return np.concatenate(list(chunks))

    whole = drawn(50, 50)
    assert whole.shape == (50, 7)
    assert set(whole.ravel().tolist()) == set(range(7))
    for n_chunk in (1, 3, 49, 64):
        assert np.array_equal(drawn(50, n_chunk), whole)
    assert np.array_equal(drawn(20, 8), whole[:20])


def test_draws_are_those_of_sacrebleu() -> None:
    theirs = np.random.default_rng(12345).choice(13, size=(30, 13), replace=True)
    ours = np.concatenate(list(resampled_places(13, 30, like_sacrebleu=True, n_chunk=7)))
    assert np.array_equal(ours, theirs)


def test_draws_are_even() -> None:
    counts = np.bincount(np.concatenate(list(resampled_places(10, 2000))).ravel())
    assert counts.sum() == 20_000
    assert np.abs(counts - 2000).max() < 6 * math.sqrt(2000)


def test_interval_of_a_mean_is_that_of_the_normal_law() -> None:
    values = np.random.Generator(np.random.Philox(key=1)).normal(3.0, 2.0, size=400)
    score = with_interval(mean_of(values.tolist()))
    assert score.n_resamples == 1000
    assert score.interval is not None
    assert score.value is not None
    half = 1.96 * values.std() / 20
    assert score.interval[0] == pytest.approx(score.value - half, abs=0.15 * half)
    assert score.interval[1] == pytest.approx(score.value + half, abs=0.15 * half)


def test_interval_of_equal_values_is_a_point() -> None:
    assert with_interval(mean_of([2.5] * 9)).interval == (2.5, 2.5)


def test_interval_leaves_undefined_items_out() -> None:
    with_gaps = with_interval(mean_of([1.0, None, 1.0, None]))
    assert with_gaps.value == 1.0
    assert with_gaps.interval == (1.0, 1.0)


def test_no_interval_without_two_items() -> None:
    for score in (mean_of([]), mean_of([1.0]), mean_of([None, None]), TextScore(1.0, 5)):
        same = with_interval(score)
        assert same is score
        assert same.n_resamples == 0


def test_interval_cuts_a_fortieth_off_each_end() -> None:
    assert central_interval(np.arange(1000.0)) == (25.0, 974.0)
    assert central_interval(np.arange(39.0)) == (0.0, 38.0)
    assert central_interval(np.array([math.nan])) is None


@pytest.mark.parametrize("name", NAMES)
def test_interval_is_that_of_sacrebleu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    references = [[sentence, sentences(40, 2)[n]] for n, sentence in enumerate(sentences(40, 1))]
    hypotheses = noisy([first for first, _ in references], 0.3, 3)
    metric = metric_of(name)
    theirs = metric.corpus_score(hypotheses, reference_streams(references), n_bootstrap=200)
    score = with_interval(sacrebleu_score(name, hypotheses, references), 200)
    assert score.interval is not None
    assert (score.interval[1] - score.interval[0]) / 2 == pytest.approx(theirs._ci, abs=1e-4)
    assert score.sums is not None
    assert resampled_values(score.sums, 200).mean() == pytest.approx(theirs._mean, abs=1e-4)


@pytest.mark.parametrize("share", [0.3, 0.32, 0.5])
def test_paired_test_is_that_of_sacrebleu(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    texts = sentences(60, 1)
    references = [[text] for text in texts]
    systems = [("first", noisy(texts, 0.3, 2)), ("second", noisy(texts, share, 3))]
    metrics = {name: metric_of(name) for name in NAMES}
    # The keys must start with the library's class names.
    keys = {"bleu": "BLEU", "chrf": "chrF2", "ter": "TER"}
    theirs = PairedTest(
        systems,
        {keys[name]: metric for name, metric in metrics.items()},
        reference_streams(references),
        test_type="bs",
        n_samples=300,
    )()[1]
    for name in NAMES:
        scores = [sacrebleu_score(name, texts, references) for _, texts in systems]
        result = paired_test(scores[0], scores[1], 300)
        assert result is not None
        baseline, system = theirs[keys[name]]
        assert result.difference == pytest.approx(system.score - baseline.score, abs=1e-9)
        # One resample may fall on the other side in float32.
        assert result.p_value == pytest.approx(system.p_value, abs=1.01 / 301)
        assert result.interval is not None
        assert result.interval[0] <= result.difference <= result.interval[1]


def test_paired_test_of_equal_systems() -> None:
    for score in (
        mean_of([1.0, 2.0, 3.0]),
        sacrebleu_score("bleu", ["a b c d e", "c d e f"], [["a b c d x"], ["c d e f"]]),
    ):
        result = paired_test(score, score)
        assert result is not None
        assert result.difference == 0.0
        assert result.p_value == 1.0
        assert result.interval == (0.0, 0.0)


def test_paired_test_of_systems_far_apart() -> None:
    draw = random.Random(1)
    worse = [draw.random() for _ in range(50)]
    better = [value + 1.0 + 0.1 * draw.random() for value in worse]
    result = paired_test(mean_of(worse), mean_of(better))
    assert result is not None
    assert (result.n, result.n_resamples) == (50, 1000)
    assert result.p_value == pytest.approx(1 / 1001)
    assert result.interval is not None
    assert 1.0 < result.interval[0] < result.difference < result.interval[1] < 1.1
    mirrored = paired_test(mean_of(better), mean_of(worse))
    assert mirrored is not None
    assert mirrored.difference == -result.difference


def test_p_values_are_even_where_nothing_differs() -> None:
    draw = random.Random(5)
    low = 0
    for _ in range(200):
        first, second = ([draw.gauss(0, 1) for _ in range(40)] for _ in range(2))
        result = paired_test(mean_of(first), mean_of(second), 200)
        assert result is not None
        assert result.p_value is not None
        low += result.p_value <= 0.1
    assert 8 <= low <= 36


def test_metric_of_counts_is_resampled_as_a_whole() -> None:
    texts = sentences(30, 1)
    references = [[text.split()] for text in texts]
    score = caption_bleu([text.split() for text in noisy(texts, 0.3, 2)], references)[3]
    inside = with_interval(score).interval
    assert inside is not None
    assert score.value is not None
    assert inside[0] < score.value < inside[1]
    assert score.items is not None
    of_items = with_interval(mean_of(list(score.items))).interval
    assert inside != of_items


def test_infinite_perplexity_passes_through() -> None:
    score = with_interval(perplexity([1e6, 2e6], [1, 1]))
    assert score.value == math.inf
    assert score.interval == (math.inf, math.inf)
    result = paired_test(score, perplexity([1.0, 2.0], [1, 1]))
    assert result is not None
    assert result.p_value is None
    assert result.interval is None


def test_scores_that_cannot_be_paired() -> None:
    assert paired_test(mean_of([]), mean_of([])) is None
    assert paired_test(TextScore(1.0, 2), mean_of([1.0, 2.0])) is None
    single = paired_test(mean_of([1.0]), mean_of([2.0]))
    assert single is not None
    assert (single.difference, single.interval, single.p_value) == (1.0, None, None)
    with pytest.raises(ValueError, match="2 and 3 items"):
        paired_test(mean_of([1.0, 2.0]), mean_of([1.0, 2.0, 3.0]))
    with pytest.raises(ValueError, match="two ways"):
        paired_test(mean_of([1.0, 2.0]), mean_score([1.0, 2.0], signature="other"))
