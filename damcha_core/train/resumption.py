"""What a run that goes on may change, and which checkpoints are its own."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from damcha_core.config.change import with_values
from damcha_core.config.identity import config_hash, differing_keys
from damcha_core.config.schema import RunConfig
from damcha_core.errors import CheckpointError, UsageError
from damcha_core.train.checkpoint import STATE, Checkpoint
from damcha_core.train.state import TrainState

RESUME_MAY_CHANGE = (
    "run.device",
    "run.threads",
    "data.workers",
    "data.root",
    "train.epochs",
    "train.stop_after_epochs",
    "train.save_every_steps",
    "train.keep_last",
)


def require_resumable_changes(stored: RunConfig, config: RunConfig, path: Path) -> None:
    """Refuse changes that would make it another run.

    Args:
        stored: settings the run was started with.
        config: settings it is to go on with.
        path: the run folder.

    Raises:
        UsageError: a setting differs that is not in RESUME_MAY_CHANGE.
    """
    forbidden = [key for key in differing_keys(stored, config) if key not in RESUME_MAY_CHANGE]
    if forbidden:
        raise UsageError(
            f"--resume {path}: {', '.join(forbidden)} cannot change in a run that has started; "
            f"only {', '.join(RESUME_MAY_CHANGE)} may. Start a new run for other settings."
        )


def run_hash(config: RunConfig) -> str:
    """A hash of the settings that every part of a run has in common.

    Unlike config_hash it does not move when the run goes on with more epochs, for example.

    Args:
        config: resolved settings.

    Returns:
        64 hexadecimal digits.
    """
    fixed = {
        "train.epochs": 1,
        "train.stop_after_epochs": 0,
        "train.save_every_steps": 0,
        "train.keep_last": 1,
    }
    return config_hash(with_values(config, fixed))


def fingerprints(assets: Mapping[str, bytes]) -> dict[str, str]:
    """sha256 of each file that a run keeps of its data, by name."""
    return {name: hashlib.sha256(content).hexdigest() for name, content in assets.items()}


def require_own(
    folder: Path, checkpoint: Checkpoint, config: RunConfig, assets: Mapping[str, bytes]
) -> None:
    """Refuse a checkpoint of another run that found its way into the folder.

    Args:
        folder: where the checkpoint lies.
        checkpoint: what was read.
        config: the run's settings.
        assets: the files that the run kept of its data.

    Raises:
        CheckpointError: it was saved under other settings, or with other such files.
    """
    if checkpoint.state.get("run_hash") != run_hash(config):
        raise CheckpointError(f"{folder}: of another run: saved under other settings than run.toml")
    stored = checkpoint.state.get("assets", {})
    for name, digest in fingerprints(assets).items():
        if not isinstance(stored, dict) or stored.get(name) != digest:
            raise CheckpointError(
                f"{folder}: trained with another {name} than the one in the run folder; "
                "put the original file back"
            )


def stored_position(folder: Path, checkpoint: Checkpoint) -> TrainState:
    """Where the run stood.

    Args:
        folder: the checkpoint's folder.
        checkpoint: its content.

    Raises:
        CheckpointError: the position is not what a run writes.
    """
    try:
        state = TrainState.from_mapping(checkpoint.state["position"])
        if state.step != checkpoint.step:
            raise ValueError(f"step {state.step} in a checkpoint of step {checkpoint.step}")
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{folder / STATE}: its position is not readable: {error}") from error
    return state
