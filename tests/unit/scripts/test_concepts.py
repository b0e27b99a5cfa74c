"""The concept sets as they are made: good references, honest splits."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise

import pytest
from builtin_text.concepts import SIZES, concept_pairs
from builtin_text.concepts_grammar.event import Event, Phrase
from builtin_text.concepts_grammar.inflection import (
    article,
    participle,
    past,
    plural,
    third_person,
)
from builtin_text.concepts_grammar.nouns import MASS, PLACES
from builtin_text.concepts_grammar.scene import all_scenes
from builtin_text.concepts_grammar.sentence import Telling, tell, tellings
from builtin_text.draws import Draws

FUNCTION_WORDS = {
    *("a", "an", "the", "two", "and", "is", "are", "there", "he", "she", "they", "his", "her"),
    *("across", "at", "behind", "for", "from", "in", "into", "of", "on", "onto", "over"),
    *("through", "to", "under", "up", "with"),
}


@pytest.fixture(scope="module")
def splits():
    return concept_pairs()


@pytest.fixture(scope="module")
def references(splits):
    """Sentences by source, for each split; the rows of a source lie together."""
    grouped: dict[str, dict[str, list[str]]] = {}
    for split, pairs in splits.items():
        grouped[split] = {}
        for source, target in pairs:
            grouped[split].setdefault(source, []).append(target)
    return grouped


def concept_set(source: str) -> frozenset[str]:
    return frozenset(source.split(" "))


def lemmas() -> dict[str, set[str]]:
    """Base forms that a written word may be of."""
    table: dict[str, set[str]] = {}

    def enter(base: str, *forms: str) -> None:
        for form in forms:
            table.setdefault(form, set()).add(base)

    for scene in all_scenes():
        for verb in {scene.verb, *(second for second, _ in scene.actions)} - {""}:
            enter(verb, verb, third_person(verb), participle(verb), past(verb))
        nouns = {*scene.subjects, *scene.places}
        nouns |= {thing.noun for _, thing in scene.actions}
        nouns |= {complement.thing.noun for complement in scene.complements}
        for noun in nouns:
            enter(noun, noun, *([] if noun in MASS else [plural(noun)]))
    return table


def test_sizes(references):
    assert {split: len(sets) for split, sets in references.items()} == SIZES
    assert {
        split: len({concept_set(s) for s in sets}) for split, sets in references.items()
    } == SIZES
    words = {word for sets in references.values() for source in sets for word in source.split()}
    assert 300 <= len(words) <= 600


def test_one_to_four_different_references(splits, references):
    for sets in references.values():
        assert {len(sentences) for sentences in sets.values()} == {1, 2, 3, 4}
        assert all(len(set(sentences)) == len(sentences) for sentences in sets.values())
    for pairs in splits.values():
        sources = [source for source, _ in pairs]
        changes = sum(one != other for one, other in pairwise(sources))
        assert changes == len(set(sources)) - 1


def test_every_reference_has_all_concepts_in_some_form(references):
    table = lemmas()
    for sets in references.values():
        for source, sentences in sets.items():
            for sentence in sentences:
                words = sentence[:-1].lower().replace(",", "").split(" ")
                found = {base for word in words for base in table.get(word, {word}) | {word}}
                assert concept_set(source) <= found, (source, sentence)


def test_sentences_hold_nothing_but_concepts_adverbs_and_small_words(references):
    table = lemmas()
    for source, sentences in references["valid"].items():
        for sentence in sentences:
            assert sentence[0].isupper()
            assert sentence.endswith(".")
            assert "  " not in sentence
            words = sentence[:-1].lower().replace(",", "").split(" ")
            others = [w for w in words if not (table.get(w, {w}) | {w}) & concept_set(source)]
            assert all(word in FUNCTION_WORDS or word.endswith("ly") for word in others), sentence


def test_articles_fit_the_word_after_them(references):
    for sentences in references["train"].values():
        for sentence in sentences:
            words = sentence[:-1].lower().split(" ")
            for one, other in pairwise(words):
                if one in ("a", "an"):
                    assert one == article(other)
                    assert other not in MASS


def test_sources_have_three_to_five_different_words(references):
    sizes = Counter(len(source.split(" ")) for sets in references.values() for source in sets)
    assert set(sizes) == {3, 4, 5}
    assert min(sizes.values()) > 1000
    assert all(
        len(concept_set(source)) == len(source.split(" "))
        for sets in references.values()
        for source in sets
    )
    # The order says nothing: it is alphabetical or that of the sentence by chance alone.
    in_order = [
        source for source in references["train"] if sorted(source.split()) == source.split()
    ]
    assert len(in_order) < 0.1 * SIZES["train"]


def test_held_out_sets_neither_contain_another_nor_lie_in_one(references):
    splits = {split: {concept_set(s) for s in sets} for split, sets in references.items()}
    everything = set().union(*splits.values())
    assert len(everything) == sum(SIZES.values())
    subsets = {
        frozenset(part)
        for key in everything
        for size in range(3, len(key))
        for part in combinations(key, size)
    }
    for held_out in (splits["valid"], splits["test"]):
        assert not held_out & subsets
        for key in held_out:
            parts = {frozenset(p) for n in range(3, len(key)) for p in combinations(key, n)}
            assert not parts & everything


def test_held_out_words_are_known(references):
    counts = Counter(word for source in references["train"] for word in source.split())
    held_out = {w for split in ("valid", "test") for s in references[split] for w in s.split()}
    assert min(counts[word] for word in held_out) >= 8


@pytest.mark.parametrize(
    ("verb", "forms"),
    [
        ("chase", "chases chasing chased"),
        ("carry", "carries carrying carried"),
        ("play", "plays playing played"),
        ("wash", "washes washing washed"),
        ("hug", "hugs hugging hugged"),
        ("forget", "forgets forgetting forgot"),
        ("visit", "visits visiting visited"),
        ("open", "opens opening opened"),
        ("lie", "lies lying lay"),
        ("see", "sees seeing saw"),
        ("fix", "fixes fixing fixed"),
        ("wait", "waits waiting waited"),
        ("stir", "stirs stirring stirred"),
        ("order", "orders ordering ordered"),
        ("swim", "swims swimming swam"),
        ("draw", "draws drawing drew"),
    ],
)
def test_verb_forms(verb, forms):
    assert [third_person(verb), participle(verb), past(verb)] == forms.split()


def test_noun_forms():
    regular = {"dog": "dogs", "box": "boxes", "baby": "babies", "boy": "boys", "church": "churches"}
    others = {"child": "children", "wolf": "wolves", "fish": "fish", "tomato": "tomatoes"}
    others |= {"piano": "pianos", "goose": "geese", "fisherman": "fishermen", "bus": "buses"}
    assert {noun: plural(noun) for noun in regular | others} == regular | others
    assert [article(word) for word in ("apple", "old", "dog", "uniform")] == [
        *("an", "an", "a", "a")
    ]


def test_ways_to_tell():
    event = Event(
        (Phrase("dog", adjective="old"),),
        "",
        "chase",
        object=Phrase("ball"),
        place=("in", Phrase("park", adjective="sunny")),
    )
    assert dict(tellings(event)).keys() == {
        "An old dog is chasing a ball in the sunny park.",
        "The old dog chased the ball in the sunny park.",
        "An old dog chases a ball in the sunny park.",
        "In the sunny park, an old dog is chasing a ball.",
        "Two old dogs are chasing a ball in the sunny park.",
        "There is an old dog chasing a ball in the sunny park.",
        "The old dog quickly chased the ball in the sunny park.",
    }
    pair = Event((Phrase("boy"), Phrase("girl")), "", "swim", place=("in", Phrase("lake")))
    assert tell(pair, Telling("progressive")) == "A boy and a girl are swimming in the lake."
    assert tell(pair, Telling("present")) == "A boy and a girl swim in the lake."


def test_two_verbs():
    sitting = Event(
        (), "they", "sit", "drink", Phrase("tea", "mass"), place=("on", Phrase("bench"))
    )
    assert (
        tell(sitting, Telling("progressive")) == "They are sitting on the bench and drinking tea."
    )
    assert tell(sitting, Telling("present")) == "They sit on the bench and drink tea."
    trying = Event(
        (Phrase("boy"),),
        "",
        "try",
        "catch",
        Phrase("fish"),
        complement=("with", "a", Phrase("net")),
    )
    assert tell(trying, Telling("past", "the")) == "The boy tried to catch a fish with a net."


def test_scenes_are_complete():
    for scene in all_scenes():
        assert scene.subjects
        assert set(scene.places) <= PLACES.keys(), scene
    assert len(
        {(s.subjects, s.verb, s.actions, s.complements, s.places) for s in all_scenes()}
    ) == len(all_scenes())


def test_draws_are_fair_and_stable():
    draws = Draws("test", 1)
    counts = Counter(draws.below(3) for _ in range(9000))
    assert all(abs(count - 3000) < 250 for count in counts.values())
    counts = Counter(draws.weighted("ab", (1, 3)) for _ in range(8000))
    assert abs(counts["a"] - 2000) < 250
    assert sorted(draws.shuffled(range(10))) == list(range(10))
    again = [Draws("test", 1).below(100) for _ in range(2)]
    assert again[0] == again[1]
