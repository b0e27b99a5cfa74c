"""What is found wrong with settings, collected so that all of it is reported at once."""

from __future__ import annotations

from collections.abc import Sequence

from damcha_core.config.overrides import Layer
from damcha_core.errors import ConfigError


class Findings:
    """Problems of one set of settings, each with the place that the setting came from.

    Args:
        layer: the settings with their origins.
        lines: problems that were found before.
    """

    def __init__(self, layer: Layer, lines: Sequence[str] = ()) -> None:
        self.layer = layer
        self.lines = list(lines)
        self.refused: set[str] = set()

    def values(self, section: str) -> dict[str, object]:
        """The given values of one section."""
        return {
            key: setting.value for (home, key), setting in self.layer.items() if home == section
        }

    def origins(self, keys: Sequence[str]) -> str:
        """Where keys were given, as the start of a line: "a.toml, --set: ", or nothing."""
        places = []
        for dotted in keys:
            section, _, key = dotted.partition(".")
            if (section, key) in self.layer:
                places.append(self.layer[section, key].origin)
        named = [place for place in dict.fromkeys(places) if place]
        return ", ".join(named) + ": " if named else ""

    def add(self, keys: Sequence[str], text: str) -> None:
        """Adds a problem, unless a value that it builds on was refused already.

        Args:
            keys: the dotted keys that it concerns.
            text: one plain line, without the origin.
        """
        if self.refused.isdisjoint(keys):
            self.lines.append(self.origins(keys) + text)

    def refuse(self, dotted: str, text: str) -> None:
        """Adds a problem of one value, which no other check builds on from then on.

        Args:
            dotted: the key.
            text: one plain line, without the origin.
        """
        self.add((dotted,), text)
        self.refused.add(dotted)

    def raise_any(self) -> None:
        """Ends the check.

        Raises:
            ConfigError: there are problems.
        """
        if self.lines:
            raise ConfigError(list(dict.fromkeys(self.lines)))
