"""One phrase in both languages, and what it was made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Phrase:
    """A phrase in both languages.

    Attributes:
        pattern: name of the template.
        items: the CLDR items put into it, such as ("territory:DE", "month:3"); none twice.
        en: the English text.
        de: the German text.
    """

    pattern: str
    items: tuple[str, ...]
    en: str
    de: str

    def side(self, language: str) -> str:
        """The text in "en" or "de"."""
        return {"en": self.en, "de": self.de}[language]
