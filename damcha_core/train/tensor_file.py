"""Files of tensors: safetensors alone, so that reading one executes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from damcha_core.errors import CheckpointError


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors, from whatever device, into a file with the usual permissions.

    Args:
        path: the file.
        tensors: by name; views and shared memory are copied.
    """
    path.touch()
    mode = path.stat().st_mode
    # safetensors refuses views and tensors that share memory; a file needs neither.
    plain = {name: t.detach().to("cpu").contiguous() for name, t in tensors.items()}
    save_file(plain, path)
    path.chmod(mode)  # safetensors keeps its files from everyone but their owner


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a file of tensors.

    Args:
        path: the file.

    Raises:
        CheckpointError: it is missing or no safetensors file.
    """
    try:
        return load_file(path)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (SafetensorError, KeyError, AttributeError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"{path}: no readable safetensors file: {error}") from error
