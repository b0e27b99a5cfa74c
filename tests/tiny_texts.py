"""Small parallel texts, and trainings on them."""

from __future__ import annotations

from pathlib import Path

from damcha_core.config.resolve import resolve
from damcha_core.config.schema import RunConfig

EN = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
DE = ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"]

SETTINGS: dict[str, object] = {
    "run.task": "wmt",
    "run.seed": 3,
    "run.device": "cpu",
    "run.threads": 1,
    "attention.name": "mha",
    "model.d_model": 16,
    "model.n_heads": 2,
    "model.d_ff": 24,
    "model.n_layers": 2,
    "model.dropout": 0.1,
    "data.vocab_size": 320,
    "data.max_tokens": 64,
    "train.epochs": 2,
    "train.batch_size": 16,
    "train.batch_tokens": 150,
    "train.lr": 1e-2,
    "train.warmup_steps": 4,
    "train.label_smoothing": 0.1,
    "eval.batch_size": 7,
    "eval.beam": 2,
    "eval.max_new_tokens": 24,
}
"""Nothing that matters is left to the recipe."""


def number_pairs(n: int, start: int = 0) -> list[tuple[str, str]]:
    """Numbers spelt digit by digit in English and German, of 1 to 5 digits."""
    numbers = [str((start + i) * 7919 % 10 ** (1 + i % 5)) for i in range(n)]
    return [
        (" ".join(EN[int(d)] for d in number), " ".join(DE[int(d)] for d in number))
        for number in numbers
    ]


def write_wmt(root: Path, *, n_train: int = 80, n_valid: int = 11, n_test: int = 9) -> None:
    """Aligned files train, valid and test of an English-German corpus of numbers."""
    root.mkdir(parents=True, exist_ok=True)
    start = 0
    for split, n in (("train", n_train), ("valid", n_valid), ("test", n_test)):
        pairs = number_pairs(n, start)
        start += n
        for place, language in enumerate(("en", "de")):
            lines = "".join(f"{pair[place]}\n" for pair in pairs)
            (root / f"{split}.{language}").write_bytes(lines.encode())


def text_config(root: Path, out: Path, **changes: object) -> RunConfig:
    """Settings of a tiny run on the texts of a folder; changes by dotted key."""
    places: dict[str, object] = {"run.out": str(out), "data.root": str(root)}
    return resolve(None, [], {**SETTINGS, **places, **changes})
