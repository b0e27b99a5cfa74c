"""Pairs and tokens a second of text training and of decoding, beside transformers' GPT-2.

    python benchmarks/text_speed.py DATA [--repeats 5] [--attention mha] [--json FILE]

DATA holds train.en, train.de, valid.en and valid.de. Needs the package transformers, which the
project does not depend on. Both models have the published quick-start size and the same
vocabulary, and train on the same batches of `<s> source <sep> target </s>` with AdamW on one
thread; a repeat runs each side once, in turns, and CPU time is what is counted. Our side includes
its data path; GPT-2 gets ready batches, which favours GPT-2. Decoding writes a fixed number of
tokens for each of 64 sources.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

from damcha_core.config.resolve import resolve
from damcha_core.data.loader import make_loader
from damcha_core.decoding.next_token import CachedNextTokens
from damcha_core.decoding.search import search
from damcha_core.decoding.search_settings import SearchSettings
from damcha_core.models.conditional_lm import ConditionalLM
from damcha_core.tasks.build import build_task
from damcha_core.tasks.text_task import TextTask
from damcha_core.train.learner import Learner
from damcha_core.train.run import build_learner

VOCABULARY, BATCH_TOKENS, STEPS = 4000, 2000, 8
SOURCES, NEW_TOKENS = 64, 25
Batch = dict[str, Tensor]


def text_task(data: Path, attention: str, dropout: float) -> TextTask:
    """Translation of the given files at the quick-start size."""
    flags = {
        "run.task": "wmt",
        "run.device": "cpu",
        "attention.name": attention,
        "model.dropout": dropout,
        "data.root": str(data),
        "data.vocab_size": VOCABULARY,
        "train.batch_tokens": BATCH_TOKENS,
        "train.horizon_steps": 1000,
    }
    task = build_task(resolve(flags=flags))
    assert isinstance(task, TextTask)
    return task


def gpt2(task: TextTask, dropout: float) -> GPT2LMHeadModel:
    """GPT-2 of the same width, depth and vocabulary."""
    marks = task.tokenizer
    config = GPT2Config(
        vocab_size=marks.vocab_size,
        n_positions=1024,
        n_embd=128,
        n_layer=4,
        n_head=8,
        n_inner=256,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        bos_token_id=marks.bos_id,
        eos_token_id=marks.eos_id,
        pad_token_id=marks.pad_id,
    )
    torch.manual_seed(0)
    return GPT2LMHeadModel(config)


def our_steps(task: TextTask, learner: Learner) -> Callable[[], None]:
    """STEPS updates, from the files' tokens on."""
    keys = task.training_batches(0, 0)[:STEPS]
    dataset = task.dataset("train", training=True)

    def run() -> None:
        for step, batch in enumerate(make_loader(dataset, keys, 0)):
            learner.update([batch], step=step + 1, dropout_seed=step)

    return run


def gpt2_steps(task: TextTask, model: GPT2LMHeadModel) -> Callable[[], None]:
    """The same updates with GPT-2, its loss on the same tokens."""
    keys = task.training_batches(0, 0)[:STEPS]
    ready = [gpt2_batch(b) for b in make_loader(task.dataset("train", training=True), keys, 0)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    model.train()

    def run() -> None:
        for batch in ready:
            model(**batch).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()

    return run


def gpt2_batch(batch: Batch) -> dict[str, Tensor]:
    """Whole sequences with the labels of the target alone, as transformers wants them."""
    last = batch["next_tokens"][:, -1:]
    labels = torch.where(batch["scored"], batch["next_tokens"], -100)
    tokens = torch.cat([batch["tokens"], last], dim=1)
    place = torch.arange(tokens.shape[1])[None]
    first = torch.full((len(tokens), 1), -100)
    return {
        "input_ids": tokens,
        "attention_mask": (place < batch["n_tokens"][:, None]).long(),
        "labels": torch.cat([first, labels], dim=1),
    }


def prompts_of(task: TextTask) -> list[list[int]]:
    """Prompts of the first sources."""
    pairs, marks = task.pairs("valid"), task.tokenizer
    return [
        [marks.bos_id, *pairs.source(i).tolist(), marks.sep_id]
        for i in range(min(SOURCES, len(pairs)))
    ]


def our_decoding(task: TextTask, model: ConditionalLM, beam: int) -> Callable[[], None]:
    """A fixed number of tokens for each prompt."""
    settings = SearchSettings(beam=beam, min_new_tokens=NEW_TOKENS, max_new_tokens=NEW_TOKENS)
    prompts, marks = prompts_of(task), task.tokenizer
    model.eval()

    def run() -> None:
        search(
            CachedNextTokens(model, marks.pad_id),
            prompts,
            settings,
            end_id=marks.eos_id,
            forbidden_ids=marks.mark_ids,
        )

    return run


def gpt2_decoding(task: TextTask, model: GPT2LMHeadModel, beam: int) -> Callable[[], None]:
    """The same with transformers' generate."""
    prompts, pad = prompts_of(task), task.tokenizer.pad_id
    longest = max(map(len, prompts))
    tokens = torch.tensor([[pad] * (longest - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
    fixed = {"min_new_tokens": NEW_TOKENS, "max_new_tokens": NEW_TOKENS, "do_sample": False}
    model.eval()

    def run() -> None:
        with torch.no_grad():
            model.generate(tokens, attention_mask=mask, num_beams=beam, **fixed)

    return run


def cpu_seconds(run: Callable[[], None]) -> float:
    """CPU time of one call."""
    started = time.process_time()
    run()
    return time.process_time() - started


def measured(sides: dict[str, Callable[[], None]], repeats: int) -> dict[str, float]:
    """Median CPU time of each side, in turns, after one call to warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for run in sides.values():
        run()
    for _ in range(repeats):
        for name, run in sides.items():
            seconds[name].append(cpu_seconds(run))
    return {name: statistics.median(times) for name, times in seconds.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--attention", default="mha")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    task = text_task(options.data, options.attention, options.dropout)
    learner = build_learner(task.config, task, torch.device("cpu"))
    model = learner.model
    assert isinstance(model, ConditionalLM)
    peer = gpt2(task, options.dropout)
    sizes = {
        options.attention: sum(p.numel() for p in model.parameters()),
        "gpt2": sum(p.numel() for p in peer.parameters()),
    }
    training = measured(
        {options.attention: our_steps(task, learner), "gpt2": gpt2_steps(task, peer)},
        options.repeats,
    )
    keys = [key for batch in task.training_batches(0, 0)[:STEPS] for key in batch]
    n_tokens = int(task.pairs("train").n_tokens[[i for _, i in keys]].sum())
    record: dict[str, Any] = {"parameters": sizes, "training": {}, "decoding": {}}
    for name, seconds in training.items():
        record["training"][name] = {
            "pairs_per_second": len(keys) / seconds,
            "tokens_per_second": n_tokens / seconds,
        }
    for beam in (1, 4):
        times = measured(
            {
                options.attention: our_decoding(task, model, beam),
                "gpt2": gpt2_decoding(task, peer, beam),
            },
            options.repeats,
        )
        written = len(prompts_of(task)) * NEW_TOKENS
        record["decoding"][f"beam {beam}"] = {n: written / s for n, s in times.items()}
    print(json.dumps(record, indent=1))
    if options.json:
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
