"""Images a second of a training step, beside timm's VisionTransformer, in one process.

    python benchmarks/training_step.py [--repeats 12] [--attention mha,damcha] [--json FILE]

Both sides train on the same pictures with AdamW on one thread. A repeat runs each side once, in
turns, so that a change in the machine's speed hits all of them; CPU time is what is counted. Our
side includes its data path (drawing the order, augmentation, masks); timm's side gets ready
batches, which favours timm.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import timm
import torch
from torch.nn import functional as F

from damcha_core.config.resolve import resolve_mapping
from damcha_core.data.augment import Augment
from damcha_core.data.image_data import ImageData, ImageSplit
from damcha_core.data.loader import make_loader
from damcha_core.tasks.build import build_task
from damcha_core.tasks.image_task import ImageTask
from damcha_core.train.run import build_learner

SIDE, PATCH, WIDTH, DEPTH, HEADS, HIDDEN, BATCH, CLASSES = 32, 4, 128, 4, 8, 256, 64, 10
STEPS = 4
"""Steps of one measurement."""


def random_pictures() -> ImageData:
    """Pictures of noise in the shape of CIFAR-10: what they show costs no time."""
    generator = torch.Generator().manual_seed(0)
    shape = (BATCH * STEPS, 3, SIDE, SIDE)
    images = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    labels = torch.randint(0, CLASSES, (len(images),), generator=generator)
    split = ImageSplit(images, labels)
    names = tuple(map(str, range(CLASSES)))
    augment = Augment(max_shift=4, flip=True)
    return ImageData(split, split, split, class_names=names, augment=augment)


def ours(task_name: str, attention: str) -> Callable[[], None]:
    """STEPS training steps of a task of ours, its data path included."""
    config = resolve_mapping(
        {
            "run": {"task": task_name},
            "attention": {"name": attention},
            "model": {
                "d_model": WIDTH,
                "n_heads": HEADS,
                "d_ff": HIDDEN,
                "n_layers": DEPTH,
                "patch_size": PATCH,
                "dropout": 0.0,
            },
            "train": {"batch_size": BATCH, "horizon_steps": 1000, "clip_norm": 1.0},
        }
    )
    task = build_task(config)
    assert isinstance(task, ImageTask)
    task.__dict__["data"] = random_pictures()
    learner = build_learner(config, task, torch.device("cpu"))
    epoch = 0

    def run() -> None:
        nonlocal epoch
        keys = task.training_batches(epoch, 0)
        loader = make_loader(task.dataset("train", training=True), keys, 0)
        for step, batch in enumerate(loader):
            learner.update([batch], step=step + 1, dropout_seed=step)
        epoch += 1

    return run


def peer() -> Callable[[], None]:
    """STEPS training steps of timm's VisionTransformer of the same shape."""
    torch.manual_seed(0)
    model = timm.models.VisionTransformer(
        img_size=SIDE,
        patch_size=PATCH,
        embed_dim=WIDTH,
        depth=DEPTH,
        num_heads=HEADS,
        mlp_ratio=HIDDEN / WIDTH,
        num_classes=CLASSES,
        class_token=False,
        global_pool="avg",
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    split = random_pictures().train
    images = split.images.float() / 255
    labels = split.labels
    assert labels is not None
    batches = list(zip(images.split(BATCH), labels.split(BATCH), strict=True))

    def run() -> None:
        for image, label in batches:
            loss = F.cross_entropy(model(image), label)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    return run


def measure(sides: dict[str, Callable[[], None]], repeats: int) -> dict[str, list[float]]:
    """CPU seconds of each side, measured in turns after one warm-up each."""
    for run in sides.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, run in sides.items():
            started = time.process_time()
            run()
            seconds[name].append(time.process_time() - started)
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=12)
    parser.add_argument("--attention", default="mha")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    sides = {"timm VisionTransformer": peer()}
    for attention in arguments.attention.split(","):
        for task in ("cifar10-cls", "cifar10"):
            sides[f"{task} {attention}"] = ours(task, attention)
    seconds = measure(sides, arguments.repeats)
    base = seconds["timm VisionTransformer"]
    report = {}
    for name, values in seconds.items():
        ratios = [b / v for b, v in zip(base, values, strict=True)]
        report[name] = {
            "images_per_second": BATCH * STEPS / statistics.median(values),
            "speed_over_timm": statistics.median(ratios),
        }
        print(
            f"{name:28s} {report[name]['images_per_second']:8.1f} images/s   "
            f"{report[name]['speed_over_timm']:.3f} x timm"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
