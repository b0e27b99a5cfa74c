"""Controls as functions from run settings to run settings.

A control keeps the user's [model] section: it is that of the model it is matched to. The sizes
that match stand among its own options, so that a resolved file says both, and reads back as the
same run.

What surrounds the stack (embedding, head) is the same in both models and drops out, so the sizes
are chosen for the stack. A whole model agrees at least as well as its stack does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from damcha_core.catalog.attentions import attention_row
from damcha_core.catalog.controls import SIZE_PREFIX, ControlRow, control_row
from damcha_core.catalog.loading import load
from damcha_core.catalog.stack_size import Stack
from damcha_core.config.consistency import Conflict
from damcha_core.config.model_size import mean_tokens, stack_of
from damcha_core.config.options import LARGEST_D_FF, LARGEST_N_LAYERS
from damcha_core.config.schema import AttentionSection, RunConfig
from damcha_core.config.values import shown


@dataclass(frozen=True)
class Match:
    """A control's stack beside the one it is matched to.

    Attributes:
        stack: the control's stack.
        amount: its parameters or multiply-adds.
        wanted: those of the other stack.
    """

    stack: Stack
    amount: int
    wanted: int

    @property
    def difference(self) -> float:
        """Relative difference, positive where the control has more."""
        return self.amount / self.wanted - 1


def as_built(config: RunConfig) -> RunConfig:
    """The settings of the model that a run builds.

    Args:
        config: resolved settings.

    Returns:
        The settings themselves; for a control those of a plain run of its attention, with the sizes
        that match.
    """
    row = control_row(config.attention.name)
    if row is None:
        return config
    options = config.attention.option_values()
    sizes = {key: options[SIZE_PREFIX + key] for key in row.sizes}
    assert all(sizes.values()), "the sizes are chosen when the settings are resolved"
    return config.model_copy(
        update={
            "model": config.model.model_copy(update=sizes),
            "attention": AttentionSection(name=row.attention, options=None),
        }
    )


def as_target(config: RunConfig) -> RunConfig:
    """The settings of the run that a control is matched to: the same file with its attention."""
    row = control_row(config.attention.name)
    assert row is not None
    kind = load(attention_row(row.target).options or "")
    given = config.attention.option_values()
    options = kind(**{key: given[key] for key in kind.model_fields})
    section = AttentionSection(name=row.target, options=options)
    return config.model_copy(update={"attention": section})


def with_sizes(config: RunConfig) -> RunConfig:
    """Settings with the sizes of a control filled in; those of other runs as they are.

    Args:
        config: settings without conflicts.
    """
    row = control_row(config.attention.name)
    if row is None:
        return config
    options = config.attention.options
    assert options is not None
    stack = best_match(row, config).stack
    sizes = {SIZE_PREFIX + key: getattr(stack, key) for key in row.sizes}
    section = config.attention.model_copy(update={"options": options.model_copy(update=sizes)})
    return config.model_copy(update={"attention": section})


def size_conflicts(config: RunConfig) -> Iterator[Conflict]:
    """What is wrong with the sizes of a control: none match, or others were given.

    Args:
        config: settings that are fine in every other respect.

    Yields:
        One conflict at a time.
    """
    row = control_row(config.attention.name)
    if row is None:
        return
    match = best_match(row, config)
    if abs(match.difference) > row.tolerance:
        yield Conflict(("attention.name",), unreachable(row, match))
        return
    options = config.attention.option_values()
    for key in row.sizes:
        given, own = options[SIZE_PREFIX + key], getattr(match.stack, key)
        if given not in (0, own):
            yield Conflict(
                (f"attention.{SIZE_PREFIX}{key}",),
                f"attention.{SIZE_PREFIX}{key} = {shown(given)} is refused: {row.name} makes it "
                f"{own} with these settings; leave it out, or give 0",
            )


def unreachable(row: ControlRow, match: Match) -> str:
    """What is said where no size matches."""
    closest = ", ".join(f"{key} {getattr(match.stack, key)}" for key in row.sizes)
    return (
        f"attention.name = {shown(row.name)} is refused: no {row.sizes[-1]} gives {row.attention} "
        f"the {match.wanted:,} {row.quantity} of {row.target} in its stack within "
        f"{row.tolerance:.0%}; the closest is {closest} with {match.amount:,} "
        f"({match.difference:+.1%}): change the sizes in [model], or the options of {row.target}"
    )


def best_match(row: ControlRow, config: RunConfig) -> Match:
    """The first match within the tolerance, depths near the wanted amount first; else the closest.

    Args:
        row: the control.
        config: its settings.
    """
    n_tokens, is_causal = mean_tokens(config), config.model.causal

    def amount(stack: Stack) -> int:
        if row.quantity == "parameters":
            return stack.parameters()
        return stack.multiply_adds(n_tokens, is_causal=is_causal)

    target = stack_of(as_target(config))
    wanted = amount(target)
    start = replace(target, row=attention_row(row.attention), options={})
    stacks = [start]
    if "n_layers" in row.sizes:
        stacks = [replace(start, n_layers=depth) for depth in range(1, LARGEST_N_LAYERS + 1)]
        stacks.sort(key=lambda stack: abs(amount(stack) - wanted))
    closest: Match | None = None
    for stack in stacks:
        # Linear in d_ff, so the nearest whole number is exact.
        base = amount(replace(stack, d_ff=0))
        step = amount(replace(stack, d_ff=1)) - base
        d_ff = min(max((2 * (wanted - base) + step) // (2 * step), 1), LARGEST_D_FF)
        fitted = replace(stack, d_ff=d_ff)
        match = Match(fitted, amount(fitted), wanted)
        if abs(match.difference) <= row.tolerance:
            return match
        if closest is None or abs(match.difference) < abs(closest.difference):
            closest = match
    assert closest is not None
    return closest
