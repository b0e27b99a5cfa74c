"""The floor "copy the target of the most similar training source".

Two sources are as similar as the cosine of their tf-idf vectors over words and pairs of
neighbouring words. Words are runs of letters, digits and underscores or single other signs of the
lower-cased text; a feature weighs count times (1 + log(sources / sources that have it)), so even
one that every source has counts a little. Of sources as similar (to 10 decimals) the earliest is
copied; where none has a feature of the query, the first of all is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from damcha_core.data.text.pairs import Pair, PairSource
from damcha_core.evaluate.text.text_score import FloatArray

MAX_PAIRS = 100_000

WORD = re.compile(r"\w+|[^\w\s]")
Ids = NDArray[np.int64]

# Words are numbered from 1; the pair of words (a, b) is a * PAIR_BASE + b, above every word.
PAIR_BASE = 1 << 31

# Similarities that differ by rounding alone are ties.
DECIMALS = 10


class NearestTargets(NamedTuple):
    """Copied targets.

    Args:
        targets: one a query.
        n_used: training pairs that were searched.
        n_pairs: training pairs there are, those with a blank side included.
    """

    targets: list[str]
    n_used: int
    n_pairs: int


@dataclass(frozen=True, eq=False)
class SourceIndex:
    """Sources by feature (a word or a pair of words).

    Attributes:
        word_ids: number of each word that some source has, from 1.
        features: numbers of the features that some source has, ascending.
        starts: where the entries of each feature start in the next two, and their end.
        sources: the sources that have the feature, ascending within each.
        weights: the feature's part of that source's vector, which has length 1.
        rarity: 1 + log(sources / sources that have it), for each feature.
        n_sources: how many there are.
    """

    word_ids: dict[str, int]
    features: Ids
    starts: Ids
    sources: Ids
    weights: FloatArray
    rarity: FloatArray
    n_sources: int

    def similarities(self, query: str) -> FloatArray:
        """Cosine with every source, times the length of the query's vector.

        Args:
            query: a source text.

        Returns:
            One value a source, at least 0.
        """
        ids = [self.word_ids.get(word, 0) for word in WORD.findall(query.lower())]
        words = np.array(ids, dtype=np.int64)
        wanted, counts = np.unique(
            np.concatenate([words, word_pairs(words[:-1], words[1:])]), return_counts=True
        )
        total = np.zeros(self.n_sources)
        places = np.searchsorted(self.features, wanted)
        for place, feature, times in zip(places, wanted, counts, strict=True):
            if place == len(self.features) or self.features[place] != feature:
                continue
            entries = slice(self.starts[place], self.starts[place + 1])
            # A source stands once under a feature, so indexed addition adds every entry.
            weight = float(times) * self.rarity[place] ** 2
            total[self.sources[entries]] += weight * self.weights[entries]
        return total


def word_pairs(first: Ids, second: Ids) -> Ids:
    """Numbers of pairs of words; 0, which is no feature, where one of the two is unknown."""
    return np.where((first > 0) & (second > 0), first * PAIR_BASE + second, 0)


def index_sources(sources: Sequence[str]) -> SourceIndex:
    """Index of some sources.

    Args:
        sources: the texts.

    Returns:
        The index.
    """
    word_ids: dict[str, int] = {}
    flat: list[int] = []
    lengths = []
    for text in sources:
        words = WORD.findall(text.lower())
        flat.extend(word_ids.setdefault(word, len(word_ids) + 1) for word in words)
        lengths.append(len(words))
    numbers = np.array(flat, dtype=np.int64)
    owners = np.repeat(np.arange(len(sources)), lengths)
    within = owners[:-1] == owners[1:]
    pairs = word_pairs(numbers[:-1], numbers[1:])[within]
    features, place = np.unique(np.concatenate([numbers, pairs]), return_inverse=True)
    # Sorted by feature and then source, each combination once with its count.
    n_sources = max(1, len(sources))
    key, count = np.unique(
        place * n_sources + np.concatenate([owners, owners[:-1][within]]), return_counts=True
    )
    feature_of, source_of = key // n_sources, key % n_sources
    n_having = np.bincount(feature_of, minlength=len(features))
    rarity = 1.0 + np.log(len(sources) / np.maximum(n_having, 1))
    weights = count * rarity[feature_of]
    norms = np.sqrt(np.bincount(source_of, weights * weights, minlength=len(sources)))
    return SourceIndex(
        word_ids=word_ids,
        features=features,
        starts=np.concatenate([[0], np.cumsum(n_having)]),
        sources=source_of,
        # A query's vector has the rarity once more, see `similarities`.
        weights=count / norms[source_of],
        rarity=rarity,
        n_sources=len(sources),
    )


def spaced_pairs(pairs: PairSource, max_pairs: int) -> Iterator[Pair]:
    """At most max_pairs pairs at even distances, without those that have a blank side.

    Args:
        pairs: in a fixed order; read once.
        max_pairs: at least 1.

    Yields:
        Pairs in their order.
    """
    n_pairs = len(pairs)
    n_chosen = min(n_pairs, max_pairs)
    taken = 0
    for place, (source, target) in enumerate(pairs):
        # The chosen places are those of k * n_pairs // n_chosen for k from 0.
        if taken == n_chosen or place != taken * n_pairs // n_chosen:
            continue
        taken += 1
        if source.strip() and target.strip():
            yield source, target


def nearest_targets(
    pairs: PairSource, queries: Sequence[str], *, max_pairs: int = MAX_PAIRS
) -> NearestTargets:
    """Targets of the training pairs whose sources are most similar to the queries.

    Args:
        pairs: training pairs, any number.
        queries: sources to find a target for.
        max_pairs: most pairs to search, at least 1; of more, as many at even distances are taken.

    Returns:
        The targets, all empty where there is no pair to search, and how many pairs were searched.
    """
    chosen = list(spaced_pairs(pairs, max_pairs))
    if not chosen:
        return NearestTargets([""] * len(queries), 0, len(pairs))
    index = index_sources([source for source, _ in chosen])
    targets = []
    for query in queries:
        # argmax gives the first of several.
        best = int(np.argmax(np.round(index.similarities(query), DECIMALS)))
        targets.append(chosen[best][1])
    return NearestTargets(targets, len(chosen), len(pairs))
