"""What a profile measures: attentions, each causal, whole or both, on stacks of one size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from damcha_core.catalog.attentions import attention_row
from damcha_core.catalog.stack_size import Stack
from damcha_core.config.consistency import damcha_conflicts
from damcha_core.config.keys import option_owners, options_class
from damcha_core.config.model_size import stack_of
from damcha_core.config.options import DamchaOptions
from damcha_core.config.overrides import (
    Layer,
    Setting,
    layer_from_flags,
    layer_from_mapping,
    layer_from_sets,
    stacked,
)
from damcha_core.config.resolve import on_recipe
from damcha_core.config.schema import RunConfig
from damcha_core.config.toml_text import read_toml
from damcha_core.config.values import printable
from damcha_core.errors import UsageError

BASELINE = "mha"
DEFAULT_ATTENTIONS = (BASELINE, "damcha")
DEFAULT_BATCH = 4
PUBLISHED_SIZE_TASK = "cifar10"
"""The task whose recipe has the published quick-start size; used where no task is given."""


@dataclass(frozen=True)
class Candidate:
    """One attention in one mode.

    Attributes:
        name: of the catalogue.
        is_causal: whether tokens see only earlier ones.
        config: settings that its stack is built from.
    """

    name: str
    is_causal: bool
    config: RunConfig

    @property
    def mode(self) -> str:
        """The mode as a word."""
        return "causal" if self.is_causal else "whole"

    @property
    def label(self) -> str:
        """Such as "damcha causal"."""
        return f"{self.name} {self.mode}"

    @property
    def stack(self) -> Stack:
        """The size of its stack."""
        return stack_of(self.config)


def parse_attentions(text: str) -> tuple[str, ...]:
    """The attentions that `--attention` names.

    Args:
        text: names with commas between.

    Raises:
        UsageError: a name is empty, unknown, that of a control, or named twice.
    """
    names: list[str] = []
    for word in text.split(","):
        name = word.strip()
        if not name:
            raise UsageError("--attention: a name is empty; write names like mha,damcha")
        attention_row(name)
        if name in names:
            raise UsageError(f"--attention names {name} twice; name it once")
        names.append(name)
    return tuple(names)


def plan_candidates(
    file: Path | None = None,
    sets: Sequence[str] = (),
    flags: Mapping[str, object] | None = None,
    *,
    attentions: Sequence[str] = (),
    modes: Sequence[bool] = (True, False),
) -> tuple[Candidate, ...]:
    """The attentions to measure with their settings.

    Of a run file the sizes, the options of the attention, device and precision count; how many
    samples and threads it trains with does not, because a profile is no training: there `--set`
    and flags alone count.

    Args:
        file: a run file; None: none given. Without a task in it or in `sets`, the sizes are those
            of the published quick start.
        sets: "section.key=value" each. An option of [attention] goes to every attention that has
            it and on which it has an effect, so at least to one.
        flags: dotted key -> value; None as a value: not given.
        attentions: names; none: mha and the one that the settings name, or else damcha.
        modes: is_causal of each mode.

    Returns:
        For each name all modes that it has, in the order given.

    Raises:
        ConfigError: settings are not valid, or an option belongs to none of the attentions.
        UsageError: an attention is unknown or a control, or none has one of the modes.
    """
    problems: list[str] = []
    given = {} if file is None else read_toml(Path(file))
    from_file = layer_from_mapping(given, printable(str(file)), problems)
    for place in (("train", "batch_size"), ("train", "batch_tokens"), ("run", "threads")):
        from_file.pop(place, None)
    chosen = stacked(
        [
            from_file,
            layer_from_sets(sets, problems),
            layer_from_flags(flags or {}, problems),
        ]
    )
    names = tuple(attentions) or _named_by(chosen)
    for name in names:
        attention_row(name)
    problems += _ownerless(chosen, names)
    ineffective = {name: _ineffective(name, chosen) for name in names}
    for key in set.intersection(*ineffective.values()):  # lost on all: the run file's check says so
        for keys in ineffective.values():
            keys.discard(key)
    configs = {
        name: on_recipe([_base(chosen), _for(name, chosen, ineffective[name])], problems)
        for name in names
    }
    candidates = tuple(
        Candidate(name, is_causal, with_mode(configs[name], is_causal))
        for name in names
        for is_causal in modes
        if attention_row(name).causal or not is_causal
    )
    if not candidates:
        raise UsageError("none of these attentions can be causal; leave --causal out")
    return candidates


def with_mode(config: RunConfig, is_causal: bool) -> RunConfig:
    """The same settings for a causal stack or one that is not.

    Not checked again: a task of texts would refuse a stack that looks ahead.
    """
    model = config.model.model_copy(update={"causal": is_causal})
    return config.model_copy(update={"model": model})


def _base(chosen: Layer) -> Layer:
    base: Layer = {
        ("train", "batch_size"): Setting(DEFAULT_BATCH, ""),
        ("train", "batch_tokens"): Setting(0, ""),
        # One thread is what can be compared on a machine that does other things as well.
        ("run", "threads"): Setting(1, ""),
    }
    if ("run", "task") not in chosen:
        base["run", "task"] = Setting(PUBLISHED_SIZE_TASK, "")
    return base


def _named_by(chosen: Layer) -> tuple[str, ...]:
    named = chosen.get(("attention", "name"))
    if named is None or named.value == BASELINE:
        return DEFAULT_ATTENTIONS
    return (BASELINE, str(named.value))


def _own_options(name: str, chosen: Layer) -> dict[str, Setting]:
    """The settings of [attention] that are options of this attention."""
    kind = options_class(attention_row(name))
    known = {} if kind is None else kind.model_fields
    return {
        key: setting
        for (section, key), setting in chosen.items()
        if section == "attention" and key in known
    }


def _ineffective(name: str, chosen: Layer) -> set[str]:
    """The given options that say nothing to this attention, whatever they say to others."""
    row, own = attention_row(name), _own_options(name, chosen)
    foreign = {key for key in chosen_options(chosen) if key not in own}
    fixed = {
        key for key, setting in own.items() if row.preset.get(key, setting.value) != setting.value
    }
    kind = options_class(row)
    if kind is None:
        return foreign
    values = {key: setting.value for key, setting in own.items()}
    try:
        options = kind.model_validate({**values, **row.preset})
    except ValidationError:  # reported with the settings as a whole
        return foreign
    if isinstance(options, DamchaOptions):
        fixed |= {conflict.keys[0].partition(".")[2] for conflict in damcha_conflicts(options)}
    return foreign | (fixed & own.keys())


def chosen_options(chosen: Layer) -> list[str]:
    """Keys of [attention] that were given, without the name."""
    return [key for section, key in chosen if section == "attention" and key != "name"]


def _for(name: str, chosen: Layer, ineffective: set[str]) -> Layer:
    """The settings with the options that this attention has, and no others."""
    layer = {place: s for place, s in chosen.items() if place[0] != "attention"}
    for key, setting in _own_options(name, chosen).items():
        if key not in ineffective:
            layer["attention", key] = setting
    layer["attention", "name"] = Setting(name, "--attention")
    return layer


def _ownerless(chosen: Layer, names: Sequence[str]) -> list[str]:
    owners = option_owners()
    lines = []
    for (section, key), setting in chosen.items():
        if section == "attention" and key != "name" and not set(owners[key]) & set(names):
            place = f"{setting.origin}: " if setting.origin else ""
            lines.append(
                f"{place}attention.{key} is an option of {owners[key][0]}, and of none of the "
                f"profiled attentions ({', '.join(names)}); leave it out or add that one"
            )
    return lines
