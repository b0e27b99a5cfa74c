"""The texts that come with the package: always the same pairs, and a damaged file says so."""

from __future__ import annotations

import lzma
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

import damcha_core
from damcha_core.data.text import builtin
from damcha_core.data.text.builtin import load_cldr, load_concepts
from damcha_core.errors import DataError, UsageError

ROOT = Path(damcha_core.__file__).parents[1]
LOADERS = {"cldr": load_cldr, "concepts": load_concepts}
# Number of pairs and content hash of each split; of the phrases, English first.
CONTENT = {
    "cldr": {
        "train": (28_000, "ce03b006866378aab43659f6ac121f887955f3b93dcbb88210c179a8748d8908"),
        "valid": (500, "9a7db2c4b44af60a72d856b149361b8d7dd83b8da676bf9bc3f90debb2b12b18"),
        "test": (1_000, "293bf66fb7719afad11b18fc47ff00bf68fcb577f87f6ee77a7827237921d842"),
        "unseen": (1_000, "2f164098f4df0661c2f464b07c99400eb6799038908d849f4aaa06b33373c006"),
    },
    "concepts": {
        "train": (19_798, "3154cb67dce3fe4ca21024e76a25df8fa43d584f4da82f7cbbe4ef9e622121b7"),
        "valid": (993, "156cdb2c3fcef9071e95fa813efe656d10e168a3c12bf85580c0db182005f4a1"),
        "test": (974, "457e26664b2aaab4386a335720c265f826a6aaba653166b183a0e4efb0ddd950"),
    },
}
ORIGIN = {"cldr": {"babel": "2.19.0", "cldr": "49"}, "concepts": {}}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A copy of the packed files, in place of them."""
    for name in LOADERS:
        packed = builtin.FOLDER.joinpath(f"{name}.txt.xz").read_bytes()
        (tmp_path / f"{name}.txt.xz").write_bytes(packed)
    monkeypatch.setattr(builtin, "FOLDER", tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", LOADERS)
def test_pairs_and_origin_are_what_they_were(name):
    data = LOADERS[name]()
    found = {split: (len(pairs), pairs.content_hash) for split, pairs in data.splits.items()}
    assert found == CONTENT[name]
    assert list(data.splits) == list(CONTENT[name])
    assert data.origin == ORIGIN[name]


def test_names_of_the_splits():
    assert load_cldr().split("test").name == "cldr test"
    assert load_concepts().split("test").name == "concepts (test)"


def test_first_pairs():
    # The narrow no-break space of CLDR is kept.
    assert next(iter(load_cldr().split("train"))) == (
        "Destination: Switzerland, departure 11:50\u202fAM",
        "Reiseziel: Schweiz, Abflug 11:50 Uhr",
    )
    assert next(iter(load_concepts().split("train"))) == (
        "firefighter water spray house",
        "A firefighter is spraying water on the house.",
    )


def test_other_direction_is_the_same_pairs_turned():
    turned = load_cldr(source_lang="de", target_lang="en")
    for split, pairs in load_cldr().splits.items():
        assert [(b, a) for a, b in pairs] == list(turned.split(split))
        assert turned.split(split).content_hash != pairs.content_hash


@pytest.mark.parametrize(
    ("source_lang", "target_lang"), [("en", "fr"), ("fr", "de"), ("en", "en"), ("", "de")]
)
def test_other_languages_are_refused(source_lang, target_lang):
    with pytest.raises(UsageError, match="English and German") as refusal:
        load_cldr(source_lang=source_lang, target_lang=target_lang)
    assert 'data.source_lang = "en"' in str(refusal.value)


def test_concepts_ignore_root_and_languages():
    data = load_concepts(root="/nowhere", source_lang="x", target_lang="x")
    assert data.split("test").content_hash == CONTENT["concepts"]["test"][1]


@pytest.mark.parametrize("name", LOADERS)
def test_a_missing_file_is_a_data_error(name, folder):
    (folder / f"{name}.txt.xz").unlink()
    with pytest.raises(DataError, match=f"text {name} cannot be read: No such file") as problem:
        LOADERS[name]()
    assert str(folder) in str(problem.value)
    assert "install damcha again" in str(problem.value)


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("length", [0, 5, 40, 100_000, -30, -1])
def test_a_cut_off_file_is_a_data_error(name, length, folder):
    file = folder / f"{name}.txt.xz"
    file.write_bytes(file.read_bytes()[:length])
    with pytest.raises(DataError, match=f"built-in text {name} is damaged or cut off"):
        LOADERS[name]()


@pytest.mark.parametrize("place", [0, 6, 13, 30, 1_000, 150_000, -40, -10, -1])
def test_a_changed_byte_is_a_data_error(place, folder):
    file = folder / "concepts.txt.xz"
    content = bytearray(file.read_bytes())
    content[place] ^= 4
    file.write_bytes(content)
    with pytest.raises(DataError, match="built-in text concepts is damaged or cut off"):
        load_concepts()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"A dog is chasing a ball.\n",
        b'{"origin": {}}\na\tb\n',
        b'{"origin": {}, "splits": {"train": 2}}\na\tb\n',
        b'{"origin": {}, "splits": {"train": 1}}\na b\n',
        b'{"origin": {}, "splits": {"train": 1}}\na\tb\tc\n',
        b'{"origin": {}, "splits": {"train": 1}}\n\xff\tb\n',
    ],
)
def test_a_packed_file_of_something_else_is_a_data_error(content, folder):
    (folder / "concepts.txt.xz").write_bytes(lzma.compress(content))
    with pytest.raises(DataError, match="built-in text concepts is damaged or cut off"):
        load_concepts()


def test_loading_imports_no_babel():
    program = (
        "import sys\n"
        "from damcha_core.catalog.loading import load\n"
        "from damcha_core.catalog.tasks import task_row\n"
        "for name in ('cldr', 'concepts'):\n"
        "    load(task_row(name).data)()\n"
        "print(sorted(name for name in sys.modules if name.startswith('babel')))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert answer.stdout.strip() == "[]"


def test_the_unicode_licence_is_shipped():
    path = files("damcha_core.data.text").joinpath("builtin", "LICENSE-cldr.txt")
    text = path.read_text(encoding="utf-8")
    assert text.startswith("cldr.txt.xz holds")
    assert "UNICODE LICENSE V3" in text
    assert "Copyright © 2004-2025 Unicode, Inc." in text
