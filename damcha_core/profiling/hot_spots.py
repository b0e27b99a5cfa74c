"""Where the time of a step goes: parts of the model, operators, and the metric alone."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile, record_function

from damcha_core.profiling.profile_record import HotSpots, Share
from damcha_core.profiling.spans import METRIC, OPTIMIZER, PREFIX, has_metric, marked_parts
from damcha_core.profiling.subject import Subject

MOST_SHOWN = 5
BACKWARD = "autograd::engine::evaluate_function: "
REST = "everything else"


def find_hot_spots(subject: Subject, x_BND: Tensor, n_steps: int = 1) -> HotSpots:
    """Watch training steps with a profiler, which slows small operators down more than large.

    Args:
        subject: which has run a step of this shape before.
        x_BND: tokens.
        n_steps: how many steps; in a single short one the machine's other work shows.
    """

    def steps() -> None:
        for _ in range(n_steps):
            loss = subject.forward(x_BND)
            subject.backward(loss)
            with record_function(PREFIX + OPTIMIZER):
                subject.update()

    with marked_parts(subject.model):
        events = record(steps, subject.number_format.device)
    found = hot_spots(events, uses_gpu=subject.number_format.device.type == "cuda")
    return found if has_metric(subject.model) else found.model_copy(update={"metric": None})


def record(run: Callable[[], object], device: torch.device) -> list[Any]:
    """The events of torch's profiler while code runs once."""
    # Its native part reads this when it first starts; it would write to stderr where no GPU is.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities) as profiler:
        run()
    return list(profiler.events())


def hot_spots(events: Iterable[Any], *, uses_gpu: bool) -> HotSpots:
    """Add up events by part and by operator.

    Args:
        events: of torch's profiler, with the marks of `marked_parts`.
        uses_gpu: whether the time of the kernels counts instead of the CPU's.
    """
    events = sorted(
        (event for event in events if event.device_type.name == "CPU"),
        key=lambda event: event.time_range.start,
    )
    total, own = (
        ("device_time_total", "self_device_time_total")
        if uses_gpu
        else ("cpu_time_total", "self_cpu_time_total")
    )
    parts: defaultdict[str, float] = defaultdict(float)
    operators: defaultdict[str, float] = defaultdict(float)
    part_of_node: dict[int, str] = {}
    for event in events:
        backward = event.name.startswith(BACKWARD)
        if not backward and not event.name.startswith(PREFIX):
            operators[event.name] += getattr(event, own)
        if backward:
            # What a node computes belongs to the part whose forward pass made the node.
            if not _inside_backward(event.cpu_parent):
                parts[part_of_node.get(event.sequence_nr, REST)] += getattr(event, total)
        elif not _inside_backward(event):
            part = _part(event)
            parts[part] += getattr(event, own)
            if event.sequence_nr >= 0:
                # The number is that of the next node, so the last event that has it made the node.
                part_of_node[event.sequence_nr] = part
    everything = sum(parts.values()) or 1.0
    return HotSpots(
        parts=largest(parts, everything),
        operators=largest(operators, sum(operators.values()) or 1.0),
        metric=parts.get(METRIC, 0.0) / everything,
    )


def largest(times: Mapping[str, float], everything: float) -> list[Share]:
    """The MOST_SHOWN largest with their shares."""
    names = sorted(times, key=lambda name: -times[name])[:MOST_SHOWN]
    return [Share(name=name, share=times[name] / everything) for name in names if times[name] > 0]


def _inside_backward(event: Any) -> bool:
    while event is not None:
        if event.name.startswith(BACKWARD):
            return True
        event = event.cpu_parent
    return False


def _part(event: Any) -> str:
    """The innermost marked part around an event; a metric hides the parts inside it."""
    innermost = ""
    while event is not None:
        if event.name.startswith(PREFIX):
            name = event.name.removeprefix(PREFIX)
            if name == METRIC:
                return METRIC
            innermost = innermost or name
        event = event.cpu_parent
    return innermost or REST
