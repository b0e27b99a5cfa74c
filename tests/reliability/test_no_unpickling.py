"""Nothing in the packages can unpickle a checkpoint: a scan of their syntax trees."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tiny_runs import repository

UNPICKLERS = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
READS_PICKLES_WITH_A_GUARD = {"damcha_core/data/batch_file.py"}
"""CIFAR-10 is published as pickles; this reader has its own tests."""

SOURCES = sorted(
    path
    for package in ("damcha_core", "damcha_cli")
    for path in (repository() / package).rglob("*.py")
)


def offences(source: str) -> list[str]:
    """Calls and imports that unpickle or could, in one source text."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}"
            if name in ("torch.load", "torch.jit") or node.value.id in UNPICKLERS:
                found.append(name)
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.split(".")[0] in UNPICKLERS]
        if isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".")[0]
            names = {alias.name for alias in node.names}
            if module in UNPICKLERS or (module == "torch" and "load" in names):
                found.append(f"from {node.module} import {', '.join(sorted(names))}")
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            value = node.value
            if not (isinstance(value, ast.Constant) and value.value is False):
                found.append("allow_pickle")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found += [node.func.id for _ in "x" if node.func.id in ("eval", "exec")]
    return found


def test_the_scan_reads_the_packages():
    assert len(SOURCES) > 60


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(repository())))
def test_a_source_file_unpickles_nothing(path: Path):
    if str(path.relative_to(repository())) in READS_PICKLES_WITH_A_GUARD:
        pytest.skip("a guarded reader of published pickles, with tests of its own")
    assert offences(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.load('x')",
        "from torch import load",
        "import pickle",
        "from pickle import loads as harmless",
        "import numpy\nnumpy.load('x', allow_pickle=True)",
        "eval('1')",
    ],
)
def test_the_scan_finds_what_it_looks_for(source):
    assert offences(source)
