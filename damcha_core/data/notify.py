"""How reading and fetching data tell how far they are."""

from __future__ import annotations

from collections.abc import Callable

Notify = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done and the total (0: not known)."""


def no_notice(what: str, done: int, total: int) -> None:
    """Report progress to nobody."""
