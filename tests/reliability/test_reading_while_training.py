"""A reader of `best` and `last` gets whole checkpoints while a run replaces them."""

from __future__ import annotations

from child_runs import save_forever, wait_for

from damcha_core.train.checkpoint_store import BEST, LAST, CheckpointStore

READS, LEAST_REPLACED = 300, 20
BYTES = 200_000


def test_every_read_is_one_whole_version(child, tmp_path):
    store = CheckpointStore(tmp_path / "checkpoints")
    process = child(save_forever, store.folder, 1, BYTES)
    wait_for(lambda: store.pointed(BEST) is not None, process)
    steps: list[int] = []
    while len(steps) < READS or max(steps) - min(steps) < LEAST_REPLACED:
        name, checkpoint = store.load(BEST if len(steps) % 2 else LAST)
        assert name == f"step-{checkpoint.step:08d}"
        assert (checkpoint.weights["w"] == checkpoint.step).all()
        steps.append(checkpoint.step)
        assert process.is_alive()
