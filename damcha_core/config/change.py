"""Changing single settings of a complete configuration."""

from __future__ import annotations

from collections.abc import Mapping

from damcha_core.config.assembly import assemble
from damcha_core.config.document import to_mapping
from damcha_core.config.overrides import layer_from_flags, layer_from_mapping, stacked
from damcha_core.config.schema import RunConfig


def with_values(config: RunConfig, values: Mapping[str, object]) -> RunConfig:
    """A configuration with some settings changed and all of them checked again.

    Args:
        config: complete settings.
        values: dotted key to new value, such as {"data.root": "data"}.

    Returns:
        The changed settings; the ones handed in stay as they are.

    Raises:
        ConfigError: a key is unknown or a value is not valid.
    """
    problems: list[str] = []
    base = layer_from_mapping(to_mapping(config), "the run's settings", problems)
    changes = layer_from_flags(values, problems)
    return assemble(stacked([base, changes]), problems)
