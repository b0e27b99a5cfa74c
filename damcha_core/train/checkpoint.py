"""A checkpoint: a folder of tensors, plain state and a manifest that vouches for them.

    step-00000123/
        weights.safetensors       the model
        train_state.safetensors   optimiser, EMA, generator states
        train_state.json          position, best score, scaler: plain types
        manifest.json             written last: schema, step, sizes and sha256 of the others, and a
                                  sha256 of its own values

Nothing in it is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from damcha_core.errors import CheckpointError
from damcha_core.files import disk_errors, read_json_object, sync_file, sync_folder
from damcha_core.train.tensor_file import read_tensors, write_tensors

SCHEMA = 1
WEIGHTS, TENSORS, STATE = "weights.safetensors", "train_state.safetensors", "train_state.json"
FILES = (WEIGHTS, TENSORS, STATE)
MANIFEST = "manifest.json"
MANIFEST_KEYS = {"schema", "step", "config_hash", "threads", "world_size", "files", "check"}
LARGEST_JSON_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Checkpoint:
    """Everything a run needs to go on.

    Attributes:
        step: the step it was taken after.
        weights: the model's state dict.
        tensors: optimiser, EMA and generator states by name.
        state: plain types: position, best score, scaler.
        config_hash: hash of the settings it was made under.
        threads: torch's thread count, which the last bits of a sum depend on.
        world_size: number of training processes.
    """

    step: int
    weights: Mapping[str, Tensor]
    tensors: Mapping[str, Tensor]
    state: Mapping[str, Any]
    config_hash: str
    threads: int = 1
    world_size: int = 1


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write all files of a checkpoint into an empty folder and bring them to the disk.

    Args:
        folder: a new folder; the caller moves it to its final name afterwards.
        checkpoint: what to write.

    Raises:
        DiskError: the disk is full or cannot be written.
    """
    needed = sum(
        t.numel() * t.element_size()
        for part in (checkpoint.weights, checkpoint.tensors)
        for t in part.values()
    )
    with disk_errors(folder, needed):
        write_tensors(folder / WEIGHTS, checkpoint.weights)
        write_tensors(folder / TENSORS, checkpoint.tensors)
        _write_json(folder / STATE, checkpoint.state)
        manifest = {
            "schema": SCHEMA,
            "step": checkpoint.step,
            "config_hash": checkpoint.config_hash,
            "threads": checkpoint.threads,
            "world_size": checkpoint.world_size,
            "files": {name: _fingerprint(folder / name) for name in FILES},
        }
        manifest["check"] = _check(manifest)
        for name in FILES:
            sync_file(folder / name)
        _write_json(folder / MANIFEST, manifest)
        sync_file(folder / MANIFEST)
        sync_folder(folder)


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read a checkpoint after checking every byte of it against its manifest.

    Args:
        folder: the checkpoint's folder.

    Raises:
        CheckpointError: a file is missing, no plain file, altered, or not what it should hold;
            the message names the file.
    """
    manifest = verify_checkpoint(folder)
    return Checkpoint(
        step=manifest["step"],
        weights=read_tensors(folder / WEIGHTS),
        tensors=read_tensors(folder / TENSORS),
        state=_read_json(folder / STATE),
        config_hash=manifest["config_hash"],
        threads=manifest["threads"],
        world_size=manifest["world_size"],
    )


def verify_checkpoint(folder: Path) -> dict[str, Any]:
    """Check every byte of a checkpoint without loading it.

    Args:
        folder: the checkpoint's folder.

    Raises:
        CheckpointError: as read_checkpoint, but for the content of intact files.

    Returns:
        The manifest; its step, threads and world_size are numbers, its config_hash is text.
    """
    path = folder / MANIFEST
    manifest = _read_json(path)
    schema = manifest.get("schema")
    if type(schema) is int and schema > SCHEMA:
        raise CheckpointError(
            f"{path}: written by a newer damcha (checkpoint schema {schema}, this one reads "
            f"up to {SCHEMA}); update damcha to use it"
        )
    if schema != SCHEMA or not _has_manifest_types(manifest):
        raise CheckpointError(f"{path}: no manifest of a damcha checkpoint")
    if manifest.pop("check") != _check(manifest):
        raise CheckpointError(f"{path}: damaged: its values differ from its own sha256")
    for name in FILES:
        _require_plain_file(folder / name)
        try:
            found = _fingerprint(folder / name)
        except OSError as error:
            raise _unreadable(folder / name, error) from error
        if manifest["files"][name] != found:
            raise CheckpointError(
                f"{folder / name}: damaged: size or sha256 differ from the manifest"
            )
    return manifest


def _has_manifest_types(manifest: Mapping[str, Any]) -> bool:
    if set(manifest) != MANIFEST_KEYS:
        return False
    numbers = [manifest[key] for key in ("step", "threads", "world_size")]
    files = manifest["files"]
    return (
        all(type(number) is int and number >= 0 for number in numbers)
        and isinstance(manifest["config_hash"], str)
        and isinstance(files, dict)
        and set(files) == set(FILES)
        and all(_is_fingerprint(stated) for stated in files.values())
    )


def _is_fingerprint(stated: Any) -> bool:
    return (
        isinstance(stated, dict)
        and set(stated) == {"size", "sha256"}
        and type(stated["size"]) is int
        and isinstance(stated["sha256"], str)
    )


def _check(manifest: Mapping[str, Any]) -> str:
    # The other files stand in the manifest with their sha256; nothing else vouches for itself.
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _write_json(path: Path, value: Any) -> None:
    # No line end after the last brace: a file that lost its last byte must not be whole.
    text = json.dumps(value, indent=2, sort_keys=True, allow_nan=False)
    path.write_text(text, encoding="utf-8")


def _require_plain_file(path: Path) -> None:
    try:
        kind = path.lstat().st_mode
    except OSError as error:
        raise _unreadable(path, error) from error
    if not stat.S_ISREG(kind):
        raise CheckpointError(f"{path}: a link or special file where a plain file belongs")


def _fingerprint(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return {"size": path.stat().st_size, "sha256": digest.hexdigest()}


def _read_json(path: Path) -> dict[str, Any]:
    _require_plain_file(path)
    try:
        if path.stat().st_size > LARGEST_JSON_BYTES:
            raise CheckpointError(f"{path}: larger than any damcha checkpoint writes it")
        return read_json_object(path)
    except OSError as error:
        raise _unreadable(path, error) from error
    except ValueError as error:
        raise CheckpointError(f"{path}: damaged: not the JSON it should be") from error


def _unreadable(path: Path, error: OSError) -> CheckpointError:
    # Also what a reader meets when a run that still trains prunes the checkpoint under it.
    return CheckpointError(f"{path}: cannot be read: {error.strerror}")
