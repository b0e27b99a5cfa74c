"""The sequence lengths of a profile."""

from __future__ import annotations

from collections.abc import Sequence

from damcha_core.errors import UsageError

LONGEST = 2**20
MOST_LENGTHS = 32
DEFAULT_LENGTHS = (64, 128, 256, 512)


def parse_lengths(text: str) -> tuple[int, ...]:
    """The lengths that `--lengths` names.

    Args:
        text: whole numbers with commas between, such as "64,128".

    Returns:
        The lengths, shortest first.

    Raises:
        UsageError: a word is no whole number from 1 to LONGEST, a length is named twice, or there
            are more than MOST_LENGTHS.
    """
    example = f"give whole numbers from 1 to {LONGEST:,} with commas between, such as 64,128,256"
    words = [word.strip() for word in text[: 64 * MOST_LENGTHS].split(",")]
    if len(words) > MOST_LENGTHS:
        raise UsageError(f"--lengths: {len(words)} lengths are too many, give {MOST_LENGTHS}")
    lengths = []
    for word in words:
        # isdecimal also admits digits of other scripts, which nobody types by intention.
        fits = word.isascii() and word.isdecimal() and len(word) <= len(str(LONGEST))
        if not fits or not 1 <= int(word) <= LONGEST:
            raise UsageError(f"--lengths {word[:32]!a} is refused: {example}")
        if int(word) in lengths:
            raise UsageError(f"--lengths names {int(word)} twice; name it once")
        lengths.append(int(word))
    return tuple(sorted(lengths))


def main_length(lengths: Sequence[int]) -> int:
    """The length that the first table shows: the middle one, of an even number the longer.

    Args:
        lengths: at least one.
    """
    return sorted(lengths)[len(lengths) // 2]
