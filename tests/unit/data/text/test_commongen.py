"""The official layout of CommonGen, in small files made here."""

from __future__ import annotations

from pathlib import Path

import pytest

from damcha_core.data.text.commongen import load_commongen
from damcha_core.errors import DataError, UsageError

ROWS = {
    "train": [("ball dog", "A dog has a ball."), ("ball dog", "Balls for dogs."), ("cat", "Cats.")],
    "dev": [("tree climb", "They climb a tree."), ("sun", "Sun.")],
    "test": [("sea", "The sea.")],
}


def fill(folder: Path, rows=ROWS) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for split, pairs in rows.items():
        # As published: no line break at the end of a file.
        for part, column in (("src_alpha", 0), ("tgt", 1)):
            text = "\n".join(pair[column] for pair in pairs)
            (folder / f"commongen.{split}.{part}.txt").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("place", ["", "commongen"])
def test_rows_of_both_places(tmp_path, place):
    fill(tmp_path / place)
    data = load_commongen(root=str(tmp_path), source_lang="en", target_lang="de")
    assert {name: list(pairs) for name, pairs in data.splits.items()} == {
        "train": ROWS["train"],
        "valid": ROWS["dev"],
        "test": ROWS["test"],
    }
    assert not data.absent
    assert not data.notices


@pytest.mark.parametrize("hidden", [None, b"", b"\n", b"\n\n \n"])
def test_hidden_test_sentences(tmp_path, hidden):
    fill(tmp_path)
    path = tmp_path / "commongen.test.tgt.txt"
    path.unlink()
    if hidden is not None:
        path.write_bytes(hidden)
    data = load_commongen(root=tmp_path)
    assert set(data.splits) == {"train", "valid"}
    with pytest.raises(
        UsageError, match=r"commongen\.test\.tgt\.txt is (not there|empty); .*valid"
    ):
        data.split("test")


def test_damaged_test_sentences_are_not_taken_for_hidden_ones(tmp_path):
    fill(tmp_path)
    (tmp_path / "commongen.test.tgt.txt").write_bytes(b"\xff\n")
    with pytest.raises(DataError, match="not UTF-8 in line 1"):
        load_commongen(root=tmp_path)


def test_nothing_there_says_where_and_what_runs_today(tmp_path):
    with pytest.raises(DataError) as caught:
        load_commongen(root=tmp_path / "none")
    said = str(caught.value)
    for part in (
        "commongen.train.src_alpha.txt",
        "none and ",
        "none/commongen, not found",
        "DAMCHA_DATA",
    ):
        assert part in said
    assert said.endswith("\nThis runs today, on built-in data: damcha train --task concepts")
    assert said.count("\n") == 1


def test_only_what_is_missing_is_named(tmp_path):
    fill(tmp_path / "commongen")
    (tmp_path / "commongen" / "commongen.dev.tgt.txt").unlink()
    with pytest.raises(DataError, match=r"^CommonGen: commongen\.dev\.tgt\.txt: looked for"):
        load_commongen(root=tmp_path)


def test_unequal_rows_are_refused(tmp_path):
    fill(tmp_path)
    (tmp_path / "commongen.dev.tgt.txt").write_text("one\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"2 lines .* has 1"):
        load_commongen(root=tmp_path)


@pytest.mark.parametrize("part", ["index", "cs_str"])
def test_other_files_must_have_as_many_rows(tmp_path, part):
    fill(tmp_path)
    path = tmp_path / f"commongen.train.{part}.txt"
    path.write_text("0\n0\n1", encoding="utf-8")
    assert len(load_commongen(root=tmp_path).split("train")) == 3
    path.write_text("0\n0", encoding="utf-8")
    with pytest.raises(DataError, match=rf"{part}\.txt has 2 rows .* has 3: .*releases"):
        load_commongen(root=tmp_path)


def test_sets_in_two_splits_are_counted(tmp_path):
    # Two times the same set in one split is no leak, another order of it in another one is.
    rows = {
        **ROWS,
        "dev": [("dog ball", "A."), ("sun", "B.")],
        "test": [("sun", "C."), ("sun", "D.")],
    }
    fill(tmp_path, rows)
    first, second = load_commongen(root=tmp_path).notices
    assert first.startswith("1 of the 2 concept sets of valid are also in train:")
    assert second.startswith("1 of the 1 concept sets of test are also in valid:")
