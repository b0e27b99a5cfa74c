"""Texts that hold concepts which the model finds very improbable."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_model import END, PAD, TableModel

from damcha_core.decoding import constrained_search
from damcha_core.decoding.constraints import ConceptReader, Constraints
from damcha_core.decoding.hypothesis import Hypothesis
from damcha_core.decoding.search import search
from damcha_core.decoding.search_settings import SearchSettings
from damcha_core.errors import UsageError

VOCAB = 16
CAT, DOG, ICE, EGORY, FISH, CREAM, DOT = 8, 9, 10, 11, 12, 13, 14
INSIDE = (EGORY, FISH)
STARTS = np.array([i not in (PAD, END, *INSIDE) for i in range(VOCAB)])
STARTS[END] = True
IMPROBABLE = 40.0
PROMPTS = [[seed] for seed in range(12)]
marks = {"end_id": END, "forbidden_ids": [PAD]}
any_beam = pytest.mark.parametrize("beam", [1, 4])


class Unwilling(TableModel):
    """The tokens of the concepts are very improbable, but "egory" after "cat" is certain."""

    def logits(self, seed, text):
        drawn = super().logits(seed, text)
        drawn[[CAT, DOG, ICE, EGORY, FISH, CREAM]] -= IMPROBABLE
        if text and text[-1] == CAT:
            drawn[EGORY] += 2 * IMPROBABLE
        return drawn


def constrained(
    concepts, limit: int = 8, beam: int = 1, prompts=PROMPTS, model=None, **more
) -> list[list[Hypothesis]]:
    options = SearchSettings(beam=beam, n_best=beam, max_new_tokens=limit, **more)
    wanted = Constraints([concepts] * len(prompts), STARTS)
    model = model or Unwilling(VOCAB)
    return search(model, prompts, options, constraints=wanted, **marks)


CASES = {
    "one word": [[(CAT,)]],
    "two words": [[(CAT,)], [(DOG,)]],
    "several pieces": [[(CAT, EGORY)], [(DOG, FISH)]],
    "several words": [[(ICE, CREAM)], [(CAT,)]],
    "a shared prefix": [[(CAT,)], [(CAT, FISH)]],
    "a shared prefix of words": [[(ICE,)], [(ICE, CREAM)]],
    "an overlap": [[(ICE, CREAM)], [(CREAM, CAT)]],
    "twice the same": [[(CAT,)], [(CAT,)]],
    "alternatives": [[(CAT,), (CAT, EGORY)], [(DOG,), (ICE, CREAM)]],
    "many": [[(CAT,)], [(DOG,)], [(ICE, CREAM)], [(CAT, FISH)], [(DOT,)]],
}


@any_beam
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("spare", [0, 1, 4])
def test_every_concept_is_placed_when_the_limit_allows_it(case, spare, beam) -> None:
    concepts = CASES[case]
    limit = spare + sum(min(map(len, forms)) for forms in concepts)
    reader = ConceptReader(concepts, [*STARTS.tolist(), True, False])
    for texts in constrained(concepts, limit, beam):
        assert texts
        for h in texts:
            assert h.unplaced == reader.unplaced(h.tokens) == ()
            assert len(h.tokens) <= limit


@any_beam
def test_a_word_is_not_part_of_another(beam: int) -> None:
    for texts in constrained([[(CAT,)]], 6, beam):
        for h in texts:
            after = dict(zip(h.tokens, [*h.tokens[1:], END], strict=True))
            assert STARTS[after[CAT]]


def test_a_form_may_be_part_of_a_longer_form() -> None:
    found = constrained([[(CAT,)], [(CAT, EGORY)]], 3, 4)
    assert {h.tokens for texts in found for h in texts} == {(CAT, CAT, EGORY), (CAT, EGORY, CAT)}


@any_beam
def test_a_limit_too_small_places_what_fits_and_says_what_is_left(beam: int) -> None:
    concepts = [[(ICE, CREAM)], [(CAT,)], [(DOG,)]]
    for limit, unplaced in ((0, (0, 1, 2)), (1, (0, 2)), (2, (0,)), (3, (0,)), (4, ())):
        for texts in constrained(concepts, limit, beam):
            assert texts[0].unplaced == unplaced


def test_a_concept_without_room_takes_nothing_from_the_others() -> None:
    for texts in constrained([[(ICE, CREAM)], [(ICE,)], [(CREAM,)]], 2, 2):
        assert texts[0].unplaced == (0,)


def test_a_concept_that_cannot_be_written_is_left_out() -> None:
    for texts in constrained([[(CAT,)], [], [(DOG, PAD)]], 4, 2):
        assert texts[0].unplaced == (1, 2)


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_without_concepts_it_is_plain_search(beam: int) -> None:
    model = TableModel(VOCAB)
    options = SearchSettings(beam=beam, n_best=beam, length_penalty=0.8, max_new_tokens=6)
    plain = search(model, PROMPTS, options, **marks)
    assert constrained([], 6, beam, model=model, length_penalty=0.8) == plain


@any_beam
def test_log_probabilities_are_those_of_the_texts(beam: int) -> None:
    model = Unwilling(VOCAB)
    for prompt, texts in zip(PROMPTS, constrained(CASES["many"], 9, beam), strict=True):
        assert [h.score for h in texts] == sorted((h.score for h in texts), reverse=True)
        for h in texts:
            expected = model.text_log_p(prompt[0], h.tokens)
            assert h.log_probability == pytest.approx(expected, abs=1e-9)


def test_prompts_of_a_batch_have_concepts_of_their_own() -> None:
    lists = [CASES[name] for name in CASES]
    prompts = PROMPTS[: len(lists)]
    options = SearchSettings(beam=3, n_best=2, length_penalty=1.0, max_new_tokens=9)
    limits = [9 - i % 3 for i in range(len(lists))]
    model = Unwilling(VOCAB)
    together = search(
        model, prompts, options, limits=limits, constraints=Constraints(lists, STARTS), **marks
    )
    for i, prompt in enumerate(prompts):
        own = Constraints([lists[i]], STARTS)
        alone = search(model, [prompt], options, limits=limits[i : i + 1], constraints=own, **marks)
        assert alone[0] == together[i]
        assert together[i][0].unplaced == ()


def test_more_slots_than_the_model_would_ask_for_find_better_texts() -> None:
    """Banks beat a text that goes its way and has its concepts forced upon it at the end."""
    willing = TableModel(VOCAB, end_logit=-1.0)
    concepts = [[(CAT,)], [(DOG,)], [(ICE,)]]
    found = constrained(concepts, 8, 1, model=willing)
    scores = [texts[0].score for texts in found]
    forced = []
    for [seed] in PROMPTS:
        text: list[int] = []
        while len(text) < 5:
            text.append(
                int(np.argmax(np.where(STARTS, willing.log_p(seed, text), -np.inf)[2:])) + 2
            )
        forced.append(willing.text_log_p(seed, [*text, CAT, DOG, ICE]))
    assert np.mean(scores) > np.mean(forced) + 1.0


@any_beam
def test_rules_hold_beside_concepts(beam: int) -> None:
    more = {"min_new_tokens": 7, "no_repeat_ngram": 1, "repetition_penalty": 1.3}
    for texts in constrained([[(CAT,)], [(CAT,)], [(DOG,)]], 10, beam, **more):
        for h in texts:
            assert h.unplaced == ()
            assert 7 <= len(h.tokens) <= 10
            others = [t for t in h.tokens if t != CAT]
            assert len(set(others)) == len(others)


def fits_always(search, live, candidates, closed_R):
    """Broken: no slot is kept for what is still to come."""
    return ~closed_R[candidates.row]


def by_log_p(search, live, candidates):
    """Broken: the most probable candidate of each prompt takes all."""
    order = np.lexsort((-candidates.log_p, live.prompt[candidates.row]))
    prompt = live.prompt[candidates.row[order]]
    return candidates.at(order[np.diff(prompt, prepend=-1) > 0])


def test_a_search_without_banks_finds_worse_texts_and_without_room_lacks_concepts(
    monkeypatch,
) -> None:
    good = [texts[0] for texts in constrained(CASES["two words"], 8)]
    monkeypatch.setattr(constrained_search._ConstrainedSearch, "_allocate", by_log_p)
    forced = [texts[0] for texts in constrained(CASES["two words"], 8)]
    assert not any(h.unplaced for h in forced)
    assert np.mean([h.score for h in good]) > np.mean([h.score for h in forced])
    monkeypatch.setattr(constrained_search._ConstrainedSearch, "_is_fit", fits_always)
    assert all(texts[0].unplaced for texts in constrained(CASES["two words"], 8))


class Impossible(Unwilling):
    """The tokens of the concepts have no probability at all."""

    def logits(self, seed, text):
        drawn = super().logits(seed, text)
        drawn[[CAT, DOG]] = -np.inf
        return drawn


def test_tokens_of_no_probability_are_placed_all_the_same() -> None:
    for texts in constrained([[(CAT,)], [(DOG,)]], 5, 2, model=Impossible(VOCAB)):
        assert texts[0].unplaced == ()
        assert texts[0].score == -np.inf


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_narrow_logits_place_concepts_too(dtype: torch.dtype) -> None:
    found = constrained(CASES["many"], 8, 2, model=Unwilling(VOCAB, dtype=dtype))
    assert all(texts[0].unplaced == () for texts in found)


WORD = st.tuples(st.sampled_from([2, 3, CAT, DOG]), st.lists(st.sampled_from(INSIDE), max_size=1))
FORM = st.lists(WORD.map(lambda w: (w[0], *w[1])), min_size=1, max_size=2).map(lambda w: sum(w, ()))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(FORM, min_size=1, max_size=1), min_size=1, max_size=4),
    st.integers(0, 3),
    st.integers(1, 3),
)
def test_concepts_of_one_form_always_fit_into_their_tokens(concepts, spare, beam) -> None:
    limit = spare + sum(len(forms[0]) for forms in concepts)
    for texts in constrained(concepts, limit, beam, prompts=PROMPTS[:3]):
        assert all(h.unplaced == () for h in texts)


def fewest_tokens(concepts) -> int:
    """The length of the shortest text that holds the concepts, by trying all texts."""
    reader = ConceptReader(concepts, [*STARTS.tolist(), True, False])
    used = sorted({token for forms in concepts for form in forms for token in form})
    return next(
        n
        for n in itertools.count()
        if any(not reader.unplaced(text) for text in itertools.product(used, repeat=n))
    )


TIGHT = [
    [[(DOG,), (CAT, EGORY)], [(CAT, EGORY), (DOG, EGORY)]],
    [[(CAT,), (DOG, CAT)], [(DOG,), (CAT, DOG)]],
    [[(CAT, EGORY)], [(CAT, EGORY), (CAT, EGORY, CAT)]],
    [[(ICE, CREAM), (CAT,)], [(ICE, CREAM), (CREAM, CAT)]],
    [[(CAT,), (CAT, DOG, EGORY)], [(DOG, EGORY, FISH)]],
]


@any_beam
@pytest.mark.parametrize("concepts", TIGHT)
def test_the_tightest_limit_there_is_suffices(concepts, beam: int) -> None:
    n = fewest_tokens(concepts)
    for texts in constrained(concepts, n, beam):
        assert all(h.unplaced == () and len(h.tokens) == n for h in texts)
    for texts in constrained(concepts, n - 1, beam):
        assert len(texts[0].unplaced) == 1


SHARED = st.lists(
    st.lists(
        st.lists(st.sampled_from([(CAT,), (CAT, EGORY), (DOG,)]), min_size=1, max_size=2).map(
            lambda words: sum(words, ())
        ),
        min_size=1,
        max_size=2,
        unique=True,
    ),
    min_size=1,
    max_size=2,
)


@settings(max_examples=60, deadline=None)
@given(SHARED, st.integers(0, 2), st.integers(1, 3))
def test_concepts_that_share_forms_fit_into_the_tightest_limit(concepts, spare, beam) -> None:
    limit = spare + fewest_tokens(concepts)
    for texts in constrained(concepts, limit, beam, prompts=PROMPTS[:3]):
        assert texts
        assert all(h.unplaced == () and len(h.tokens) <= limit for h in texts)


def test_concepts_and_sampling_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="temperature"):
        constrained([[(CAT,)]], temperature=0.5)


def test_as_many_lists_as_prompts_and_as_many_marks_as_tokens() -> None:
    for lists, starts in (([], STARTS), ([[]], STARTS[:-1])):
        with pytest.raises(ValueError, match="need as many"):
            search(
                TableModel(VOCAB),
                [[1]],
                SearchSettings(),
                constraints=Constraints(lists, starts),
                **marks,
            )
