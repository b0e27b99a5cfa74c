"""The text metrics against the stored values of independent peers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from damcha_core.evaluate.text.caption_bleu import caption_bleu
from damcha_core.evaluate.text.caption_tokens import caption_tokens, tokenise_items
from damcha_core.evaluate.text.cider import cider
from damcha_core.evaluate.text.coverage import concept_coverage
from damcha_core.evaluate.text.meteor import meteor, meteor_nosyn, wordnet_available
from damcha_core.evaluate.text.perplexity import perplexity, token_losses
from damcha_core.evaluate.text.rouge_l import rouge_l
from damcha_core.evaluate.text.sacrebleu_scores import metric_score, sacrebleu_score

GOLDEN = Path(__file__).parents[1] / "golden" / "metrics" / "golden_text.json"
TOKENISATIONS = ("ptb", "raw_whitespace", "spacy", "treebank")
REFERENCE_SETS = ("sacrebleu_multi_ref", "sacrebleu_first_ref", "sacrebleu_zero_4gram_subset")

# Our three metrics, by their names here, in the golden file and among its sentence values.
OURS = (
    ("bleu", "bleu_13a_exp", "bleu_effective_order"),
    ("chrf", "chrf2", "chrf2"),
    ("ter", "ter", "ter"),
)
VARIANTS: dict[str, Metric] = {
    "bleu_13a_exp_lowercase": BLEU(lowercase=True),
    "bleu_intl_exp": BLEU(tokenize="intl"),
    "bleu_none_exp": BLEU(tokenize="none"),
    "bleu_char_exp": BLEU(tokenize="char"),
    "bleu_13a_smooth_none": BLEU(smooth_method="none"),
    "bleu_13a_floor0.1": BLEU(smooth_method="floor", smooth_value=0.1),
    "bleu_13a_addk1": BLEU(smooth_method="add-k", smooth_value=1),
    "chrf2pp": CHRF(word_order=2),
    "chrf1_beta1": CHRF(beta=1),
    "chrf2_lowercase": CHRF(lowercase=True),
    "chrf2_whitespace": CHRF(whitespace=True),
    "chrf2_eps_smoothing": CHRF(eps_smoothing=True),
    "ter_normalized": TER(normalized=True),
    "ter_no_punct": TER(no_punct=True),
    "ter_case_sensitive": TER(case_sensitive=True),
}

Texts = tuple[list[str], list[list[str]]]


@pytest.fixture(scope="module")
def cases() -> dict[str, Any]:
    """Cases of the golden file by name."""
    stored: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"]
    return stored


def english(cases: dict[str, Any], stored_under: str) -> Texts:
    """Outputs and references as the golden values of that name were made."""
    inputs = cases["english"]["inputs"]
    if stored_under == "sacrebleu_zero_4gram_subset":
        ids = cases["english"][stored_under]["ids"]
        inputs = [item for item in inputs if item["id"] in ids]
    last = 1 if stored_under == "sacrebleu_first_ref" else None
    return [item["hyp"] for item in inputs], [item["refs"][:last] for item in inputs]


def stored_tokens(caption: dict[str, Any]) -> tuple[list[list[str]], list[list[list[str]]]]:
    """The tokenised texts of one tokenisation."""
    items = caption["tokenised"]
    return (
        [item["hyp"].split() for item in items],
        [[text.split() for text in item["refs"]] for item in items],
    )


def check_sacrebleu(texts: Texts, stored: dict[str, Any]) -> None:
    for name, corpus_name, sentence_name in OURS:
        score = sacrebleu_score(name, *texts)
        assert score.value == pytest.approx(stored[corpus_name]["score"], abs=1e-9)
        assert score.signature.rpartition("|version")[0] in stored[corpus_name]["signature"]
        sentences = [row[sentence_name] for row in stored["sentence"]]
        assert score.items == pytest.approx(sentences, abs=1e-9)
        assert score.n == len(sentences)


@pytest.mark.parametrize("stored_under", REFERENCE_SETS)
def test_sacrebleu_of_english(cases: dict[str, Any], stored_under: str) -> None:
    check_sacrebleu(english(cases, stored_under), cases["english"][stored_under])


def test_sacrebleu_of_german(cases: dict[str, Any]) -> None:
    inputs = cases["german"]["inputs"]
    texts = [item["hyp"] for item in inputs], [item["refs"] for item in inputs]
    check_sacrebleu(texts, cases["german"]["sacrebleu"])


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("stored_under", REFERENCE_SETS)
def test_sacrebleu_with_other_settings(
    cases: dict[str, Any], variant: str, stored_under: str
) -> None:
    metric = VARIANTS[variant]
    score = metric_score(metric, metric, *english(cases, stored_under))
    stored = cases["english"][stored_under][variant]
    assert score.value == pytest.approx(stored["score"], abs=1e-9)


def test_bleu_of_moses_tokens(cases: dict[str, Any]) -> None:
    for stored in cases["german"]["tokenised_bleu"].values():
        metric = BLEU(tokenize="none", smooth_method="none")
        score = metric_score(metric, metric, stored["hyps"], stored["refs"])
        assert score.value == pytest.approx(stored["score"], abs=1e-9)


@pytest.mark.parametrize("tokenisation", TOKENISATIONS)
def test_caption_metrics(cases: dict[str, Any], tokenisation: str) -> None:
    stored = cases["english"]["caption"][tokenisation]
    items = stored_tokens(stored)
    bleu = {f"Bleu_{n}": score for n, score in enumerate(caption_bleu(*items), start=1)}
    scores = {
        **bleu,
        "CIDEr": cider(*items),
        "ROUGE_L": rouge_l(*items),
        "METEOR_nltk_no_synonyms": meteor_nosyn(*items),
    }
    for name, score in scores.items():
        assert score.value == pytest.approx(stored[name], abs=1e-9), name
        sentences = [row[name] for row in stored["sentence"]]
        assert score.items == pytest.approx(sentences, abs=1e-9), name


@pytest.mark.parametrize("tokenisation", TOKENISATIONS)
def test_meteor_with_synonyms(cases: dict[str, Any], tokenisation: str) -> None:
    if not wordnet_available():
        pytest.skip("WordNet is not installed here (NLTK's corpora/wordnet); it is not a need")
    stored = cases["english"]["caption"][tokenisation]
    score = meteor(*stored_tokens(stored))
    assert score.value == pytest.approx(stored["METEOR_nltk_wordnet30"], abs=1e-9)
    sentences = [row["METEOR_nltk_wordnet30"] for row in stored["sentence"]]
    assert score.items == pytest.approx(sentences, abs=1e-9)


@pytest.mark.parametrize("tokenisation", ["ptb", "treebank"])
def test_tokens_of_whole_sentences(cases: dict[str, Any], tokenisation: str) -> None:
    ours = tokenise_items(*english(cases, "sacrebleu_multi_ref"))
    hypotheses, references = stored_tokens(cases["english"]["caption"][tokenisation])
    assert list(ours.hypotheses) == hypotheses
    assert [list(of_item) for of_item in ours.references] == references


def test_tokens_of_tricky_sentences(cases: dict[str, Any]) -> None:
    """Ours are the Java tokenizer's, or the stored stand-in's where that differs from it."""
    apart = []
    for probe in cases["ptb_tokeniser_probe"]:
        tokens = " ".join(caption_tokens(probe["text"]))
        assert tokens in (probe["coco_ptb"], probe["treebank_stand_in"])
        if tokens != probe["coco_ptb"]:
            apart.append(probe["text"])
    assert [text.split()[0] for text in apart] == ["Mr.", "'Tis", "The", "No."]


@pytest.mark.parametrize("rule", ["porter", "exact"])
def test_concept_coverage(cases: dict[str, Any], rule: str) -> None:
    inputs = cases["english"]["inputs"]
    words = [caption_tokens(item["hyp"]) for item in inputs]
    scores = concept_coverage(words, [item["concepts"] for item in inputs], stem=rule == "porter")
    stored = cases["english"]["concept_coverage"][f"{rule}_ptb_lower"]
    assert scores.fraction.value == pytest.approx(stored["mean_fraction"], abs=1e-12)
    assert scores.fraction.items == pytest.approx(stored["sentence"], abs=1e-12)
    assert scores.all_covered.value == pytest.approx(stored["all_covered_share"], abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_perplexity(cases: dict[str, Any], dtype: torch.dtype) -> None:
    stored = cases["perplexity"]
    targets = torch.tensor(stored["targets"])
    counted = targets != stored["pad_id"]
    logits = torch.tensor(stored["logits"], dtype=dtype)
    counts = counted.sum(dim=1).tolist()
    nll = token_losses(logits[counted], targets[counted])
    score = perplexity([row.sum().item() for row in nll.split(counts)], counts)
    assert score.n == stored["n_tokens"]
    assert nll.sum().item() == pytest.approx(stored["total_nll_nats"], rel=1e-6)
    assert score.value == pytest.approx(stored["perplexity"], abs=1e-6)
    everything = token_losses(logits.flatten(0, 1), targets.flatten()).view(targets.shape)
    wrong = perplexity(everything.sum(dim=1).tolist(), [targets.shape[1]] * len(targets))
    assert wrong.value == pytest.approx(stored["perplexity_including_pad_wrong"], abs=1e-6)
