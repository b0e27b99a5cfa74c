"""Devices that are not there, formats a device does not have, memory that does not suffice."""

from __future__ import annotations

import pytest
import torch
from tiny_runs import train
from torch import nn

from damcha_core.errors import OutOfMemoryError, UsageError
from damcha_core.train.device import choose_device, memory_errors
from damcha_core.train.precision import Precision

CPU = torch.device("cpu")


@pytest.fixture
def no_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with nothing but its CPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that says it has two CUDA devices."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.mark.usefixtures("no_accelerator")
@pytest.mark.parametrize("name", ["cuda", "cuda:0", "cuda:7"])
def test_a_gpu_that_is_not_there_is_refused(name):
    with pytest.raises(UsageError, match=f"--device {name}: torch sees 0 CUDA devices") as caught:
        choose_device(name)
    assert "auto or cpu" in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.usefixtures("no_accelerator")
@pytest.mark.parametrize("name", ["mps", "cudaa", "cpu:x", "", "tpu", "meta", "vulkan", "xla:0"])
def test_other_devices_are_refused_by_name(name):
    with pytest.raises(UsageError, match=f"--device {name}: "):
        choose_device(name)


@pytest.mark.usefixtures("no_accelerator")
def test_auto_and_cpu_are_the_cpu_here():
    assert choose_device("auto") == choose_device("cpu") == CPU


@pytest.mark.usefixtures("two_gpus")
def test_auto_takes_a_gpu_where_there_is_one():
    assert choose_device("auto").type == "cuda"
    assert choose_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(UsageError, match="torch sees 2 CUDA devices"):
        choose_device("cuda:2")


@pytest.mark.usefixtures("no_accelerator")
def test_auto_takes_mps_before_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device("auto").type == choose_device("mps").type == "mps"


@pytest.mark.usefixtures("no_accelerator")
def test_a_run_with_a_missing_device_leaves_no_folder(tmp_path):
    with pytest.raises(UsageError, match="--device cuda"):
        train(tmp_path / "run", **{"run.device": "cuda"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_float16_needs_a_scaler_that_only_cuda_has(device):
    with pytest.raises(UsageError, match=f"float16 needs a CUDA device, not {device}"):
        Precision("float16", torch.device(device))


def test_mps_has_no_float64():
    with pytest.raises(UsageError, match="float64 does not exist on mps"):
        Precision("float64", torch.device("mps"))


def test_an_old_gpu_has_no_bfloat16(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    with pytest.raises(UsageError, match="this GPU has no bfloat16"):
        Precision("bfloat16", torch.device("cuda"))


def test_float16_on_a_gpu_scales_its_loss(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert Precision("float16", torch.device("cuda")).scaler.is_enabled()


@pytest.mark.parametrize(
    ("name", "weights", "products"),
    [
        ("float32", torch.float32, torch.float32),
        ("float64", torch.float64, torch.float64),
        ("bfloat16", torch.float32, torch.bfloat16),
    ],
)
def test_weights_and_products_have_their_format(name, weights, products):
    precision = Precision(name, CPU)
    model = precision.prepare(nn.Linear(2, 2))
    assert model.weight.dtype == precision.dtype == weights
    with precision.autocast():
        assert model(torch.ones(1, 2, dtype=weights)).dtype == products
    assert not precision.scaler.is_enabled()


def test_a_refused_precision_leaves_no_folder(tmp_path):
    with pytest.raises(UsageError, match="float16"):
        train(tmp_path / "run", **{"train.precision": "float16"})
    assert list(tmp_path.iterdir()) == []


def test_bfloat16_trains(tmp_path):
    outcome = train(tmp_path / "run", **{"train.precision": "bfloat16", "train.max_steps": 2})
    assert outcome.ended == "max_steps"


def test_too_large_a_tensor_is_advice():
    message = r"(?s)the machine .*train\.batch_size"
    with pytest.raises(OutOfMemoryError, match=message) as caught, memory_errors():
        torch.empty(10**15, dtype=torch.uint8)
    assert caught.value.exit_code == 6
    assert len(str(caught.value).splitlines()) <= 2


@pytest.mark.parametrize(
    ("error", "where"),
    [
        (MemoryError(), "the machine"),
        (torch.OutOfMemoryError("CUDA out of memory."), "the device"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "the machine"),
    ],
)
def test_every_kind_of_shortage_is_advice(error, where):
    with pytest.raises(OutOfMemoryError, match=where), memory_errors():
        raise error


def test_other_errors_of_torch_pass():
    with pytest.raises(RuntimeError, match="shape"), memory_errors():
        raise RuntimeError("shape mismatch")
