"""Stands in for `damcha train` and `damcha eval`: same files, exit codes and signals, no torch.

STAND_IN_STEP_SECONDS: how long a step takes. STAND_IN_FAILS: "cell=code cell=code"; those cells
end with that exit code after their first step.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

STEPS = 4


def train(words: list[str]) -> None:
    resumes = words[0] == "--resume"
    out = Path(words[1] if resumes else words[words.index("--out") + 1])
    if not resumes and (out / "run.toml").exists():
        stop(2, f"{out} already holds a run")
    out.mkdir(parents=True, exist_ok=True)
    with (out / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stop(2, f"{out}: another process is training in this folder")
        if not resumes:
            replace(out / "run.toml", json.dumps(words))
        stopped: list[int] = []
        signal.signal(signal.SIGTERM, lambda number, _frame: stopped.append(number))
        work(out, json.loads((out / "run.toml").read_text()), stopped)


def work(out: Path, words: list[str], stopped: list[int]) -> None:
    fails = dict(f.split("=") for f in os.environ.get("STAND_IN_FAILS", "").split())
    state = out / "step"
    step = int(state.read_text()) if state.exists() else 0
    while step < STEPS:
        time.sleep(float(os.environ.get("STAND_IN_STEP_SECONDS", "0")))
        step += 1
        replace(state, str(step))
        sys.stderr.write(f"step {step} in {os.getpid()}\n")
        if out.name in fails:
            stop(int(fails[out.name]), f"{out.name} is meant to fail\n  as planned")
        if stopped:
            stop(143, "stopped by signal 15")
    weights = hashlib.sha256(json.dumps([w for w in words if str(out) not in w]).encode())
    result = {
        "step": step, "seed": int(words[words.index("--seed") + 1]),
        "task": words[words.index("--task") + 1],
        "attention": words[words.index("--attention") + 1],
        "config_hash": weights.hexdigest(),
    }  # fmt: skip
    replace(out / "result.json", json.dumps(result))


def evaluate(words: list[str]) -> None:
    result = json.loads((Path(words[0]) / "result.json").read_text())
    value = int(result["config_hash"][:6], 16) / 16**6
    scores = {**result, "split": "test", "metrics": {"masked_mse": {"value": value}}}
    sys.stdout.write(json.dumps(scores))


def replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".tmp-{path.name}")
    temporary.write_text(text)
    temporary.replace(path)


def stop(code: int, message: str) -> None:
    sys.stderr.write(f"error: {message}\n")
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    {"train": train, "eval": evaluate}[sys.argv[1]](sys.argv[2:])
