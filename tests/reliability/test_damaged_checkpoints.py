"""Every truncation, bit flip, missing and renamed file of a checkpoint is noticed and named."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_runs import fingerprint, go_on, last_folder, train

from damcha_core.errors import CheckpointError
from damcha_core.train.checkpoint import FILES, MANIFEST, read_checkpoint
from damcha_core.train.checkpoint_store import CheckpointStore
from damcha_core.train.trained_run import load_run

ALL_FILES = (*FILES, MANIFEST)
TRUNCATIONS, BIT_FLIPS = 60, 200


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real run with three checkpoints."""
    out = tmp_path_factory.mktemp("run") / "run"
    train(out, **{"train.keep_last": 3})
    return out


@pytest.fixture(scope="module")
def checkpoint(run: Path) -> Path:
    """Its last checkpoint."""
    return last_folder(run)


@pytest.fixture
def copy(checkpoint: Path, tmp_path: Path) -> Path:
    """A copy of that."""
    return Path(shutil.copytree(checkpoint, tmp_path / checkpoint.name))


def require_refused(copy: Path, name: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        read_checkpoint(copy)
    assert str(copy / name) in str(caught.value)
    assert caught.value.exit_code == 4


def test_truncations_are_refused(copy):
    chance = random.Random(1)
    for trial in range(TRUNCATIONS):
        path = copy / ALL_FILES[trial % len(ALL_FILES)]
        whole = path.read_bytes()
        # The ends and one byte less come first, then anything.
        lengths = [0, len(whole) - 1, 1]
        round_ = trial // len(ALL_FILES)
        length = lengths[round_] if round_ < len(lengths) else chance.randrange(len(whole))
        path.write_bytes(whole[:length])
        require_refused(copy, path.name)
        path.write_bytes(whole)
    read_checkpoint(copy)


def test_bit_flips_are_refused(copy):
    chance = random.Random(2)
    for trial in range(BIT_FLIPS):
        path = copy / ALL_FILES[trial % len(ALL_FILES)]
        whole = path.read_bytes()
        place = chance.randrange(len(whole))
        flipped = bytearray(whole)
        flipped[place] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        require_refused(copy, path.name)
        path.write_bytes(whole)
    read_checkpoint(copy)


def test_every_byte_of_the_manifest_is_vouched_for(copy):
    """The other files have their sha256 in it; the manifest has its own."""
    path, chance = copy / MANIFEST, random.Random(3)
    whole = path.read_bytes()
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << chance.randrange(7)
        path.write_bytes(flipped)
        require_refused(copy, MANIFEST)
    path.write_bytes(whole)
    read_checkpoint(copy)


@pytest.mark.parametrize("name", ALL_FILES)
def test_a_missing_file_is_named(copy, name):
    (copy / name).unlink()
    require_refused(copy, name)


@pytest.mark.parametrize("name", ALL_FILES)
def test_a_renamed_file_is_missing(copy, name):
    (copy / name).rename(copy / f"{name}.old")
    require_refused(copy, name)


def test_swapped_files_are_refused(copy):
    (copy / FILES[0]).rename(copy / "x")
    (copy / FILES[1]).rename(copy / FILES[0])
    (copy / "x").rename(copy / FILES[1])
    require_refused(copy, FILES[0])


def test_an_appended_byte_is_refused(copy):
    for name in FILES:
        path = copy / name
        whole = path.read_bytes()
        path.write_bytes(whole + b" ")
        require_refused(copy, name)
        path.write_bytes(whole)


def test_an_extra_file_is_irrelevant(copy):
    (copy / "notes.txt").write_text("mine", encoding="utf-8")
    (copy / "weights.safetensors.bak").write_bytes(b"\x80\x04.")
    read_checkpoint(copy)


def test_a_file_of_another_checkpoint_is_refused(run, copy):
    other = run / "checkpoints" / CheckpointStore(run / "checkpoints").names()[0]
    for name in FILES:
        whole = (copy / name).read_bytes()
        shutil.copy(other / name, copy / name)
        require_refused(copy, name)
        (copy / name).write_bytes(whole)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)


@pytest.mark.parametrize("name", ALL_FILES)
@pytest.mark.parametrize("hurt", [truncate, flip, Path.unlink])
def test_a_run_names_the_file_and_goes_on_from_the_checkpoint_before(
    run, tmp_path, name: str, hurt: Callable[[Path], None]
):
    broken = Path(shutil.copytree(run, tmp_path / "run"))
    hurt(last_folder(broken) / name)
    with pytest.raises(CheckpointError, match=str(last_folder(broken) / name)):
        load_run(broken, checkpoint="last")
    store, notices = CheckpointStore(broken / "checkpoints"), []
    found = store.load_newest_good(notices.append, lambda _folder, _checkpoint: None)
    assert found is not None
    assert found[0] == store.names()[-2]
    assert name in notices[0]


def test_the_resumed_run_ends_like_the_undamaged_one(run, tmp_path):
    broken = Path(shutil.copytree(run, tmp_path / "run"))
    (broken / "result.json").unlink()
    flip(last_folder(broken) / FILES[0])
    outcome = go_on(broken)
    assert outcome.resumed_from == CheckpointStore(run / "checkpoints").names()[-2]
    assert fingerprint(broken) == fingerprint(run)
