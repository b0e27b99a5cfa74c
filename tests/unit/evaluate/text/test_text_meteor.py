"""METEOR: with a small WordNet made here, with a missing or damaged one, and without synonyms."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Iterator
from pathlib import Path

import nltk
import pytest

from damcha_core.errors import DataError
from damcha_core.evaluate.text import meteor as module
from damcha_core.evaluate.text.caption_tokens import caption_tokens
from damcha_core.evaluate.text.meteor import (
    meteor,
    meteor_nosyn,
    meteor_with,
    wordnet,
    wordnet_available,
    wordnet_problem,
)

# NLTK's reader leaves its files to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")

SYNONYMS = [("dog", "hound"), ("kid", "child"), ("bed",)]
PARTS = ("noun", "verb", "adj", "adv")


def write_wordnet(folder: Path) -> None:
    """A WordNet of three noun synsets in the files of its format."""
    folder.mkdir(parents=True)
    data, index = "", ""
    for synset in SYNONYMS:
        words = " ".join(f"{word} 0" for word in synset)
        offset = f"{len(data):08d}"
        data += f"{offset} 03 n {len(synset):02x} {words} 000 | made for a test  \n"
        index += "".join(f"{word} n 1 0 1 0 {offset}  \n" for word in synset)
    empty = [*(f"{part}.exc" for part in PARTS), "cntlist.rev", "index.sense"]
    for name in (*empty, *(f"{kind}.{part}" for kind in ("data", "index") for part in PARTS)):
        (folder / name).write_bytes(b"")
    (folder / "data.noun").write_bytes(data.encode())
    (folder / "index.noun").write_bytes(index.encode())
    lexnames = "".join(f"{n:02d}\tnoun.{n}\t1\n" for n in range(5))
    (folder / "lexnames").write_bytes(lexnames.encode())


@pytest.fixture
def searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The only folder that NLTK searches; empty."""
    folder = tmp_path / "nltk_data"
    folder.mkdir()
    monkeypatch.setattr(nltk.data, "path", [str(folder)])
    yield folder
    module._opened.cache_clear()
    gc.collect()


def test_synonyms_of_a_wordnet_on_this_machine(searched: Path) -> None:
    write_wordnet(searched / "corpora" / "wordnet")
    assert wordnet_available()
    assert wordnet_problem() is None
    hypotheses = [["the", "kid", "and", "a", "hound"]]
    references = [[["the", "child", "and", "a", "dog"]]]
    score = meteor(hypotheses, references)
    # Five matches in one chunk.
    assert score.value == pytest.approx(1 - 0.5 * 0.2**3)
    without = meteor_nosyn(hypotheses, references)
    assert without.value is not None
    assert without.value < 0.6
    assert score.signature != without.signature


def test_wordnet_in_an_archive(searched: Path, tmp_path: Path) -> None:
    write_wordnet(tmp_path / "zipped" / "wordnet")
    (searched / "corpora").mkdir()
    name = str(searched / "corpora" / "wordnet")
    shutil.make_archive(name, "zip", tmp_path / "zipped", "wordnet")
    assert wordnet_available()
    assert meteor([["hound"]], [[["dog"]]]).value == 0.5


def test_missing_wordnet_is_said_before_anything_is_scored(searched: Path) -> None:
    assert not wordnet_available()
    # Equal texts need no synonym, so NLTK itself would fail only on a later item.
    with pytest.raises(DataError) as raised:
        meteor([["same"]], [[["same"]]])
    text = str(raised.value)
    assert wordnet_problem() == text
    for part in ("corpora/wordnet", "NLTK_DATA", "wordnet-base", "lexnames"):
        assert part in text
    assert len(text.splitlines()) == 2
    assert list(searched.iterdir()) == []


@pytest.mark.parametrize("name", ["lexnames", "data.noun", "index.noun", "noun.exc"])
def test_incomplete_wordnet_counts_as_missing(searched: Path, name: str) -> None:
    write_wordnet(searched / "corpora" / "wordnet")
    (searched / "corpora" / "wordnet" / name).unlink()
    assert not wordnet_available()
    with pytest.raises(DataError, match="incomplete or damaged"):
        wordnet()


@pytest.mark.parametrize("content", [b"", b"nonsense\n", b"dog n x\n"])
def test_damaged_wordnet_counts_as_missing(searched: Path, content: bytes) -> None:
    write_wordnet(searched / "corpora" / "wordnet")
    (searched / "corpora" / "wordnet" / "index.noun").write_bytes(content)
    assert not wordnet_available()


def test_source_of_synonyms_that_is_handed_in() -> None:
    class Lemma:
        def __init__(self, word: str) -> None:
            self.word = word

        def name(self) -> str:
            return self.word

    class Synset:
        def lemmas(self) -> list[Lemma]:
            return [Lemma("car"), Lemma("auto")]

    class Cars:
        def synsets(self, word: str) -> list[Synset]:
            return [Synset()] if word in ("car", "auto") else []

    score = meteor_with(Cars(), "made", [["auto"], ["bike"]], [[["car"]], [["car"]]])
    assert score.items == (0.5, 0.0)


def test_without_synonyms() -> None:
    texts = ["The dogs sleep.", "", "A mat.", "Two words"]
    references = [["the dog sleeps ."], ["Something."], ["a mat ."], ["Nothing alike", "two words"]]
    hypotheses = [caption_tokens(text) for text in texts]
    words = [[caption_tokens(text) for text in of_item] for of_item in references]
    score = meteor_nosyn(hypotheses, words)
    assert score.items == pytest.approx((1 - 0.5 / 27, 0.0, 1 - 0.5 / 8, 1 - 0.5 / 8))
    assert score.n == 4
    assert meteor_nosyn([], []).value is None
    assert meteor_nosyn([["a"]], [[[]]]).value == 0.0
    with pytest.raises(ValueError, match="no reference"):
        meteor_nosyn([["a"]], [[]])
