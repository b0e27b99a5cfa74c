"""Threads and determinism last as long as the run and are put back."""

from __future__ import annotations

import pytest
import torch

from damcha_core.config.resolve import resolve
from damcha_core.errors import UsageError
from damcha_core.train.torch_settings import torch_settings


def test_threads_and_determinism_are_put_back():
    before = torch.get_num_threads()
    config = resolve(None, [f"run.threads={before + 1}", "run.deterministic=true"])
    with torch_settings(config):
        assert torch.get_num_threads() == before + 1
        assert torch.are_deterministic_algorithms_enabled()
    assert torch.get_num_threads() == before
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_missing_deterministic_kernel_is_named():
    config = resolve(None, ["run.deterministic=true"])
    with (
        pytest.raises(UsageError, match="attention damcha needs some_kernel"),
        torch_settings(config),
    ):
        raise RuntimeError("some_kernel does not have a deterministic implementation, but you set")


def test_other_errors_pass():
    with pytest.raises(RuntimeError, match="ours"), torch_settings(resolve(None)):
        raise RuntimeError("ours")
    assert not torch.are_deterministic_algorithms_enabled()
