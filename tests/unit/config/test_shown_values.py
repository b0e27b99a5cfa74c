"""How values, names and ranges are written into an error line."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field
from pydantic.fields import FieldInfo

from damcha_core.config.values import Settings, allowed, number, printable, shown, span


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (3, "3"),
        (0.001, "0.001"),
        (float("nan"), "nan"),
        ("1e-4", '"1e-4"'),
        ("a\nb", '"a\\nb"'),
        ("Grüße", '"Grüße"'),
        ("x" * 100, '"' + "x" * 60 + '..."'),
        (10**40, f"an integer of {(10**40).bit_length()} bits"),
        ({"a": 1}, "a table"),
        ([1, "a", [2], {}], '[1, "a", [...], a table]'),
        (list(range(20)), "[0, 1, 2, 3, 4, 5, 6, 7, ...]"),
        ((256, 512), "[256, 512]"),
        (datetime.date(1979, 5, 27), "1979-05-27"),
    ],
)
def test_values_are_shown_short_and_in_toml(value, text):
    assert shown(value) == text


def test_an_integer_that_python_will_not_write_out():
    assert shown(int("f" * 5000, 16)) == "an integer of 20000 bits"


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.text(max_size=80))
def test_any_text_is_shown_on_one_printable_line(text):
    assert shown(text).isprintable()
    assert printable(text).isprintable()
    assert printable(text)


def test_printable_leaves_plain_names_alone():
    assert printable("Daten/Lauf 1.toml") == "Daten/Lauf 1.toml"
    assert printable("a\nb") == "'a\\nb'"
    assert printable("") == "''"


def test_numbers_lose_a_useless_fraction():
    assert number(1.0) == "1"
    assert number(0.5) == "0.5"
    assert number(float("inf")) == "inf"


def metadata(**bounds):
    return FieldInfo.from_annotated_attribute(float, Field(default=0.5, **bounds)).metadata


def test_spans():
    assert span(metadata(ge=1, le=8)) == "from 1 to 8"
    assert span(metadata(ge=0, lt=1)) == "from 0 to below 1"
    assert span(metadata(gt=0, le=10)) == "above 0, at most 10"
    assert span(metadata(gt=0, lt=1)) == "above 0, below 1"


def test_what_is_allowed_in_words():
    class Example(Settings):
        flag: bool = True
        text: str = ""

    assert allowed(Example.model_fields["flag"]) == "true or false"
    assert allowed(Example.model_fields["text"]) == "text in quotes"
