"""What a run sets in torch for as long as it lasts: threads and determinism."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from damcha_core.config.schema import RunConfig
from damcha_core.errors import UsageError


@contextmanager
def torch_settings(config: RunConfig) -> Iterator[None]:
    """Threads and determinism of a run, put back afterwards.

    Args:
        config: run.threads (0 leaves torch's choice) and run.deterministic.

    Raises:
        UsageError: run.deterministic is set and an operation has no deterministic kernel.
    """
    threads = torch.get_num_threads()
    deterministic = torch.are_deterministic_algorithms_enabled()
    try:
        if config.run.threads:
            torch.set_num_threads(config.run.threads)
        if config.run.deterministic:
            # cuBLAS reads it when it starts; without it torch refuses matrix products on CUDA.
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(config.run.deterministic)
        yield
    except RuntimeError as error:
        if "does not have a deterministic implementation" not in str(error):
            raise
        operation = str(error).split(" ", 1)[0]
        raise UsageError(
            f"run.deterministic: attention {config.attention.name} needs {operation}, which has "
            f"no deterministic kernel on {config.run.device}; choose another attention or device, "
            "or set run.deterministic = false"
        ) from error
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic)
