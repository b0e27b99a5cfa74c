"""environment.json: where and with what a run was made."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import damcha_core

PACKAGES = ("torch", "torchvision", "numpy", "pydantic", "safetensors", "pillow")


def describe_environment(
    device: torch.device, *, resumed_from: str = "", processes: int = 1
) -> dict[str, Any]:
    """One entry of environment.json: versions, device, processes, threads, git state, command.

    Args:
        device: where the run computes.
        resumed_from: name of the checkpoint it starts from; empty for a fresh start.
        processes: how many train together.
    """
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    return {
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": sys.argv,
        "resumed_from": resumed_from,
        "damcha": damcha_core.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: metadata.version(name) for name in PACKAGES},
        "device": str(device),
        "gpu": gpu,
        "processes": processes,
        "threads": torch.get_num_threads(),
        "git": _git_state(),
    }


def _git_state() -> dict[str, Any] | None:
    """Commit of the source tree and whether it was changed; None outside a checkout."""
    root = Path(damcha_core.__file__).resolve().parent.parent
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        return None
    answers = []
    for arguments in (["rev-parse", "HEAD"], ["status", "--porcelain"]):
        try:
            done = subprocess.run(
                [git, "-C", str(root), *arguments], capture_output=True, text=True, timeout=10
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        if done.returncode:
            return None
        answers.append(done.stdout.strip())
    return {"commit": answers[0], "changed": bool(answers[1])}
