"""What --lengths accepts, and which length the first table shows."""

from __future__ import annotations

import pytest

from damcha_core.errors import UsageError
from damcha_core.profiling.lengths import LONGEST, MOST_LENGTHS, main_length, parse_lengths


@pytest.mark.parametrize(
    ("text", "lengths"),
    [("64", (64,)), (" 512, 64 ,128", (64, 128, 512)), (f"1,{LONGEST}", (1, LONGEST))],
)
def test_lengths_are_read_and_sorted(text: str, lengths: tuple[int, ...]) -> None:
    assert parse_lengths(text) == lengths


@pytest.mark.parametrize(
    "text",
    ["", "0", "-1", "a", "64,", "6.5", "1e3", "64;128", str(LONGEST + 1), "9" * 5000, "٣", "+5"],
)
def test_other_words_are_refused_on_one_line(text: str) -> None:
    with pytest.raises(UsageError, match="whole numbers from 1 to 1,048,576") as refusal:
        parse_lengths(text)
    assert len(str(refusal.value).splitlines()) == 1
    assert len(str(refusal.value)) < 200


def test_a_length_named_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="names 64 twice"):
        parse_lengths("64,128,064")


def test_too_many_lengths_are_refused() -> None:
    with pytest.raises(UsageError, match="too many"):
        parse_lengths(",".join(map(str, range(1, MOST_LENGTHS + 2))))


def test_the_main_length_is_the_middle_one() -> None:
    assert main_length([64, 128, 256, 512]) == 256
    assert main_length([1, 5, 9]) == 5
    assert main_length([7]) == 7
