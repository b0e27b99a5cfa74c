"""Checkpoints made to harm: refused with exit code 4, nothing executed, no memory taken."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import resource
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tiny_runs import go_on, last_folder, rewrite, train

from damcha_core.errors import CheckpointError
from damcha_core.train.checkpoint import (
    FILES,
    MANIFEST,
    STATE,
    TENSORS,
    WEIGHTS,
    read_checkpoint,
)
from damcha_core.train.trained_run import load_run

MOST_GROWTH_BYTES = 400 * 2**20


class Payload:
    """Runs a shell command when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.marker}",)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with one checkpoint, stopped half-way."""
    out = tmp_path_factory.mktemp("run") / "run"
    train(out, **{"train.keep_last": 1, "train.stop_after_epochs": 1})
    return out


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


def vouch(checkpoint: Path, **changes: Any) -> None:
    """Make the manifest fit the files, as whoever made them would."""
    manifest = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))
    del manifest["check"]
    for name in FILES:
        content = (checkpoint / name).read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        manifest["files"][name] = {"size": len(content), "sha256": digest}
    manifest |= changes
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    manifest["check"] = hashlib.sha256(text.encode()).hexdigest()
    (checkpoint / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")


def replace(checkpoint: Path, name: str, content: bytes) -> None:
    (checkpoint / name).write_bytes(content)
    vouch(checkpoint)


def torch_zip(marker: Path) -> bytes:
    """What torch.save writes, with a payload for its pickle."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Payload(marker)))
        archive.writestr("archive/version", "3\n")
    return buffer.getvalue()


def header(entries: dict[str, Any], rest: bytes = b"") -> bytes:
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + rest


def bare_pickle(checkpoint: Path, marker: Path) -> None:
    replace(checkpoint, WEIGHTS, pickle.dumps(Payload(marker)))


def old_pickle(checkpoint: Path, marker: Path) -> None:
    replace(checkpoint, TENSORS, pickle.dumps(Payload(marker), protocol=0))


def renamed_torch_file(checkpoint: Path, marker: Path) -> None:
    replace(checkpoint, WEIGHTS, torch_zip(marker))


def pickle_for_json(checkpoint: Path, marker: Path) -> None:
    replace(checkpoint, STATE, pickle.dumps(Payload(marker)))


def pickle_for_manifest(checkpoint: Path, marker: Path) -> None:
    (checkpoint / MANIFEST).write_bytes(pickle.dumps(Payload(marker)))


def huge_header(checkpoint: Path, _marker: Path) -> None:
    replace(checkpoint, WEIGHTS, struct.pack("<Q", 10 * 2**30) + b"{}")


def huge_tensor(checkpoint: Path, _marker: Path) -> None:
    entry = {"dtype": "F32", "shape": [2**31, 2**31], "data_offsets": [0, 4]}
    replace(checkpoint, WEIGHTS, header({"w": entry}, b"\0" * 4))


def ten_declared_gigabytes(checkpoint: Path, _marker: Path) -> None:
    entry = {"dtype": "U8", "shape": [10 * 2**30], "data_offsets": [0, 10 * 2**30]}
    replace(checkpoint, WEIGHTS, header({"w": entry}, b"\0" * 64))


def overlapping_tensors(checkpoint: Path, _marker: Path) -> None:
    entry = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    replace(checkpoint, WEIGHTS, header({"a": entry, "b": entry}, b"\0" * 4))


def unknown_format(checkpoint: Path, _marker: Path) -> None:
    entry = {"dtype": "F7", "shape": [1], "data_offsets": [0, 1]}
    replace(checkpoint, WEIGHTS, header({"w": entry}, b"\0"))


def deep_header(checkpoint: Path, _marker: Path) -> None:
    text = b'{"w":' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    replace(checkpoint, WEIGHTS, struct.pack("<Q", len(text)) + text)


def deep_state(checkpoint: Path, _marker: Path) -> None:
    replace(checkpoint, STATE, b'{"position":' + b"[" * 200_000 + b"]" * 200_000 + b"}")


def deep_manifest(checkpoint: Path, _marker: Path) -> None:
    deep = "[" * 900 + "]" * 900
    manifest = (checkpoint / MANIFEST).read_text(encoding="utf-8").rstrip().removesuffix("}")
    (checkpoint / MANIFEST).write_text(f'{manifest}, "x": {deep}}}', encoding="utf-8")


def endless_number(checkpoint: Path, _marker: Path) -> None:
    replace(checkpoint, STATE, b'{"position": ' + b"9" * 50_000 + b"}")


def huge_state(checkpoint: Path, _marker: Path) -> None:
    replace(checkpoint, STATE, b'{"position": "' + b"x" * (17 * 2**20) + b'"}')


def state_that_is_a_list(checkpoint: Path, _marker: Path) -> None:
    replace(checkpoint, STATE, b"[]")


def link(checkpoint: Path, marker: Path) -> None:
    target = marker.with_name("elsewhere")
    (checkpoint / WEIGHTS).rename(target)
    (checkpoint / WEIGHTS).symlink_to(target)


def link_to_a_device(checkpoint: Path, _marker: Path) -> None:
    (checkpoint / STATE).unlink()
    (checkpoint / STATE).symlink_to("/dev/zero")


def pipe(checkpoint: Path, _marker: Path) -> None:
    (checkpoint / TENSORS).unlink()
    os.mkfifo(checkpoint / TENSORS)


def folder_for_file(checkpoint: Path, _marker: Path) -> None:
    (checkpoint / WEIGHTS).unlink()
    (checkpoint / WEIGHTS).mkdir()


def path_traversal(checkpoint: Path, marker: Path) -> None:
    outside = marker.with_name("outside.safetensors")
    (checkpoint / WEIGHTS).rename(outside)
    manifest = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))
    manifest["files"][f"../../../{outside.name}"] = manifest["files"].pop(WEIGHTS)
    (checkpoint / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")


def absolute_path(checkpoint: Path, _marker: Path) -> None:
    manifest = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))
    manifest["files"]["/etc/passwd"] = {"size": 1, "sha256": "0"}
    (checkpoint / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")


def newer_schema(checkpoint: Path, _marker: Path) -> None:
    vouch(checkpoint, schema=2)


def schema_of_another_kind(checkpoint: Path, _marker: Path) -> None:
    vouch(checkpoint, schema="1")


def infinite_step(checkpoint: Path, _marker: Path) -> None:
    text = (checkpoint / MANIFEST).read_text(encoding="utf-8")
    text = text.replace('"step": 6', '"step": 1e400')
    (checkpoint / MANIFEST).write_text(text, encoding="utf-8")


def negative_step(checkpoint: Path, _marker: Path) -> None:
    vouch(checkpoint, step=-6)


def files_that_are_a_list(checkpoint: Path, _marker: Path) -> None:
    vouch(checkpoint, files=list(FILES))


UNREADABLE = [
    bare_pickle, old_pickle, renamed_torch_file, pickle_for_json, pickle_for_manifest,
    huge_header, huge_tensor, ten_declared_gigabytes, overlapping_tensors, unknown_format,
    deep_header, deep_state, deep_manifest, endless_number, huge_state, state_that_is_a_list,
    link, link_to_a_device, pipe, folder_for_file, path_traversal, absolute_path,
    newer_schema, schema_of_another_kind, infinite_step, negative_step, files_that_are_a_list,
]  # fmt: skip


@pytest.mark.parametrize("attack", UNREADABLE)
def test_what_cannot_be_a_checkpoint_is_refused(
    run: Path, tmp_path: Path, attack: Callable[[Path, Path], None]
):
    marker, checkpoint = tmp_path / "executed", last_folder(run)
    attack(checkpoint, marker)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CheckpointError) as caught:
        read_checkpoint(checkpoint)
    assert str(checkpoint) in str(caught.value)
    for reading in (load_run, go_on):
        with pytest.raises(CheckpointError, match=checkpoint.name) as caught:
            reading(run)
        assert caught.value.exit_code == 4
        assert len(str(caught.value).splitlines()) <= 2
    assert not marker.exists()
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert growth * 1024 < MOST_GROWTH_BYTES


def changed(tensors: dict[str, Any], name: str, how: Callable[[Any], Any]) -> dict[str, Any]:
    return {key: how(value) if key == name else value for key, value in tensors.items()}


WEIGHT = "head.weight"
MOMENT = f"optimizer/{WEIGHT}/exp_avg"


@pytest.mark.parametrize(
    "how",
    [
        lambda t: t.flatten(),
        lambda t: t[:-1],
        lambda t: torch.zeros(()),
        lambda t: t.to(torch.int64),
        lambda t: t.to(torch.complex64),
        lambda t: t.bool(),
        lambda t: t.to(torch.float8_e4m3fn),
    ],
)
def test_weights_of_another_kind_are_refused_by_name(run, how):
    checkpoint = last_folder(run)
    old = read_checkpoint(checkpoint)
    tensors = {name.removeprefix("ema/"): t for name, t in old.tensors.items()}
    assert WEIGHT in tensors
    bad = changed(dict(old.weights), WEIGHT, how)
    averaged = changed(dict(old.tensors), f"ema/{WEIGHT}", how)
    rewrite(checkpoint, weights=bad, tensors=averaged)
    for reading in (load_run, go_on):
        with pytest.raises(CheckpointError, match=rf"{checkpoint.name}.*{WEIGHT}"):
            reading(run)


@pytest.mark.parametrize("name", [WEIGHT, MOMENT, "random/cpu", "ema_updates", f"ema/{WEIGHT}"])
def test_a_tensor_that_is_missing_is_named(run, name):
    checkpoint = last_folder(run)
    old = read_checkpoint(checkpoint)
    rewrite(
        checkpoint,
        weights={key: t for key, t in old.weights.items() if key != name},
        tensors={key: t for key, t in old.tensors.items() if key != name},
    )
    with pytest.raises(CheckpointError, match=rf"{checkpoint.name}.*{name.rpartition('/')[2]}"):
        go_on(run)


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        (MOMENT, torch.zeros(1)),
        (MOMENT, torch.zeros(192, 8, dtype=torch.int64)),
        (f"optimizer/{WEIGHT}/step", torch.zeros(2)),
        ("optimizer/nothing/exp_avg", torch.zeros(2)),
        ("ema/nothing", torch.zeros(2)),
        ("ema_updates", torch.zeros(3, dtype=torch.int64)),
        ("random/cpu", torch.zeros(7, dtype=torch.uint8)),
        ("random/cpu", torch.zeros(5056)),
    ],
)
def test_a_state_of_another_kind_is_named(run, name, tensor):
    checkpoint = last_folder(run)
    old = read_checkpoint(checkpoint)
    rewrite(checkpoint, tensors={**old.tensors, name: tensor})
    part = name.removeprefix("ema/").split("/")[-2 if name.startswith("optimizer") else -1]
    with pytest.raises(CheckpointError, match=rf"{checkpoint.name}.*{part}"):
        go_on(run)


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"position": {}},
        {"position": 3},
        {"position": {"step": 6}},
        {"position": None, "scaler": {}},
    ],
)
def test_a_position_of_another_kind_is_refused(run, state):
    checkpoint = last_folder(run)
    own = read_checkpoint(checkpoint).state
    rewrite(checkpoint, state={"run_hash": own["run_hash"], "scaler": own["scaler"], **state})
    with pytest.raises(CheckpointError, match=rf"{checkpoint.name}.*position is not readable"):
        go_on(run)


def test_a_position_of_another_step_is_refused(run):
    checkpoint = last_folder(run)
    own = read_checkpoint(checkpoint).state
    rewrite(checkpoint, state={**own, "position": {**own["position"], "step": 5}})
    with pytest.raises(CheckpointError, match="step 5 in a checkpoint of step 6"):
        go_on(run)


def test_a_checkpoint_without_its_scaler_is_refused(run):
    checkpoint = last_folder(run)
    own = dict(read_checkpoint(checkpoint).state)
    del own["scaler"]
    rewrite(checkpoint, state=own)
    with pytest.raises(CheckpointError, match=rf"{checkpoint.name}.*loss scaler"):
        go_on(run)


def test_a_checkpoint_of_another_model_is_told_apart(run, tmp_path):
    other = tmp_path / "other"
    train(other, **{"train.stop_after_epochs": 1, "model.d_ff": 24})
    shutil.rmtree(last_folder(run))
    shutil.copytree(last_folder(other), last_folder(run))
    for reading in (load_run, go_on):
        with pytest.raises(CheckpointError, match="of another run"):
            reading(run)


def test_a_mean_picture_that_is_a_pickle_is_refused(run, tmp_path):
    marker = tmp_path / "executed"
    (run / "mean_picture.safetensors").write_bytes(torch_zip(marker))
    with pytest.raises(CheckpointError, match=r"mean_picture\.safetensors: no readable"):
        load_run(run).reconstruct([])
    assert not marker.exists()


def test_a_control_payload_would_have_run(tmp_path):
    """The marker of these tests appears when something does unpickle."""
    marker = tmp_path / "executed"
    pickle.loads(pickle.dumps(Payload(marker)))
    assert marker.exists()


def test_a_control_checkpoint_that_is_rewritten_stays_good(run):
    rewrite(last_folder(run))
    vouch(last_folder(run))
    save_file({"a": torch.zeros(1)}, last_folder(run) / "extra.safetensors")
    assert load_run(run).step == 6
