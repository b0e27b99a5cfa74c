"""The configuration as a complete run file."""

from __future__ import annotations

from typing import Any

import tomli_w

from damcha_core.config.schema import RunConfig


def to_mapping(config: RunConfig) -> dict[str, dict[str, Any]]:
    """All settings as plain sections, as they stand in a run file.

    Args:
        config: the configuration.

    Returns:
        section -> key -> value, of TOML's (and JSON's) own types; the options of the attention
        stand beside its name.
    """
    sections: dict[str, dict[str, Any]] = {}
    for section in type(config).model_fields:
        values = getattr(config, section).model_dump()
        if section == "attention":
            values = {"name": values["name"], **(values["options"] or {})}
        sections[section] = {
            key: list(value) if isinstance(value, tuple) else value for key, value in values.items()
        }
    return sections


def to_toml(config: RunConfig) -> str:
    """All settings as the text of a run file.

    Args:
        config: the configuration.

    Returns:
        TOML text that reads back as an equal configuration.
    """
    return tomli_w.dumps(to_mapping(config))
