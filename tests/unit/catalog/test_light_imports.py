"""The catalogue serves `damcha --help`, so it may not pull in heavy packages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import damcha_core

ROOT = Path(damcha_core.__file__).parents[1]
CATALOG = (
    "attentions attention_row collaborative controls damcha dcmha differential elliptical gated "
    "loading mha names refresh_schedule run_attentions stack_size talking_heads tasks"
)
CONFIG = "resolve change consistency controls document identity keys model_size"


@pytest.mark.parametrize(
    ("package", "modules", "banned"),
    [
        ("catalog", CATALOG, {"torch", "pydantic", "numpy", "damcha_core.config"}),
        ("config", CONFIG, {"torch", "numpy", "typer", "rich"}),
    ],
)
def test_a_package_imports_nothing_heavy(package, modules, banned):
    imports = "\n".join(f"import damcha_core.{package}.{name}" for name in modules.split())
    program = f"{imports}\nimport sys\nprint(sorted({banned!r} & set(sys.modules)))"
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert answer.stdout.strip() == "[]"
