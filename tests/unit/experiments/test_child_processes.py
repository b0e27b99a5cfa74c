"""What the commands of a study are started with."""

from __future__ import annotations

from damcha_core.experiments.child_processes import child_environment
from damcha_core.train.world import WORLD_VARIABLES, world_size


def test_a_cell_takes_no_part_in_the_run_of_its_runner(monkeypatch, tmp_path):
    for name in WORLD_VARIABLES:
        monkeypatch.setenv(name, "2")
    monkeypatch.setenv("KEPT", "yes")
    environment = child_environment(tmp_path, 3)
    assert world_size(environment) == 1
    assert not set(WORLD_VARIABLES) & set(environment)
    assert environment["KEPT"] == "yes"
    assert environment["OMP_NUM_THREADS"] == "3"
    assert environment["PYTHONPATH"].startswith(str(tmp_path))
