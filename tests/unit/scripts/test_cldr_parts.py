"""The parts that phrases are made of: draws, items, templates, and what Babel writes."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from decimal import Decimal

import pytest
from builtin_text.cldr import items, rendering
from builtin_text.cldr.slots import SLOTS
from builtin_text.cldr.templates import TEMPLATES
from builtin_text.draws import Draws

from damcha_core.data.randomness import generator

MOMENT = datetime(2024, 3, 5, 15, 5)
NBSP = "\u00a0"


def test_draws_are_the_raw_ones_in_order():
    raw = generator("here").bit_generator.random_raw(3)
    draws = Draws("here")
    assert [draws.below(1000) for _ in range(3)] == [int(value) % 1000 for value in raw]


def test_draws_go_on_after_a_block():
    draws = Draws("here")
    numbers = [draws.below(10**6) for _ in range(20_000)]
    assert len(set(numbers)) > 19_000


def test_skewed_draws_prefer_the_first_and_reach_the_last():
    draws = Draws("here")
    found = Counter(draws.skewed(range(20)) for _ in range(20_000))
    assert found[0] > 1.8 * found[19] > 0
    assert sorted(found) == list(range(20))


def test_templates_have_the_same_known_slots_on_both_sides():
    assert len({template.name for template in TEMPLATES}) == len(TEMPLATES)
    for template in TEMPLATES:
        fields = {field: object() for field, _ in template.slots}
        assert fields
        assert all(kind in SLOTS for _, kind in template.slots)
        for text in (template.en, template.de):
            assert text.count("{") == len(fields)
            assert text.format(**dict.fromkeys(fields, "")) is not None


def test_every_slot_is_used():
    assert {kind for template in TEMPLATES for _, kind in template.slots} == set(SLOTS)


def test_a_second_slot_of_a_kind_is_told_from_the_first():
    railway = next(template for template in TEMPLATES if template.name == "railway")
    assert railway.slots == (("place", "place"), ("place2", "place"), ("duration", "duration"))


@pytest.mark.parametrize("kind", sorted(SLOTS))
def test_a_filling_has_a_text_in_both_languages(kind):
    draws = Draws(kind)
    for _ in range(50):
        filling = SLOTS[kind](draws)
        assert all(filling.render(language).strip() for language in items.LANGUAGES)


def test_dates_that_english_writes_alike_are_of_one_style():
    draws = Draws("here")
    for _ in range(500):
        assert not SLOTS["date_medium"](draws).render("en").startswith("May")


def test_items_are_known_once_each():
    for codes in (
        items.places(),
        items.territories(),
        items.language_names(),
        items.currencies(),
        items.units(""),
    ):
        assert len(set(codes)) == len(codes) > 30
    assert set(items.places()) < set(items.territories())
    assert set(items.units_in_short()) < set(items.units(""))


@pytest.mark.parametrize("code", ["CH", "TR", "NL", "US"])
def test_countries_with_an_article_follow_no_preposition(code):
    assert code in items.territories()
    assert code not in items.places()


def test_unknown_names_are_left_out(monkeypatch):
    # As with an older Babel.
    monkeypatch.setattr(items, "_CURRENCIES", "EUR XYQ USD")
    monkeypatch.setitem(items._UNITS, "power", "watt warp")
    items.currencies.cache_clear()
    items.units.cache_clear()
    assert items.currencies() == ("EUR", "USD")
    assert items.units("power") == ("power-watt",)
    items.currencies.cache_clear()
    items.units.cache_clear()


@pytest.mark.parametrize(
    ("written", "en", "de"),
    [
        (lambda code: rendering.territory(code, "DE"), "Germany", "Deutschland"),
        (lambda code: rendering.language_name(code, "fr"), "French", "Französisch"),
        (lambda code: rendering.currency(code, "EUR"), "Euro", "Euro"),
        (lambda code: rendering.money(code, Decimal("12.50"), "EUR"), "€12.50", f"12,50{NBSP}€"),
        (
            lambda code: rendering.money_name(code, Decimal("2.50"), "EUR"),
            "2.50 euros",
            "2,50 Euro",
        ),
        (
            lambda code: rendering.quantity(code, Decimal("1.5"), "length-kilometer"),
            "1.5 kilometers",
            "1,5 Kilometer",
        ),
        (lambda code: rendering.number(code, 1234), "1,234", "1.234"),
        (lambda code: rendering.percent(code, Decimal("0.125")), "12.5%", f"12,5{NBSP}%"),
        (lambda code: rendering.rounded(code, 2_500_000_000), "2.5 billion", "2,5 Milliarden"),
        (lambda code: rendering.date(code, MOMENT, "long"), "March 5, 2024", "5. März 2024"),
        (lambda code: rendering.date(code, MOMENT, "yQQQQ"), "1st quarter 2024", "1. Quartal 2024"),
        (lambda code: rendering.weekday(code, 0), "Monday", "Montag"),
        (lambda code: rendering.month(code, 12), "December", "Dezember"),
        (lambda code: rendering.duration(code, 2, "month"), "2 months", "2 Monate"),
        (lambda code: rendering.relative(code, -2, "month"), "2 months ago", "vor 2 Monaten"),
        (lambda code: rendering.relative(code, 1, "day"), "in 1 day", "in 1 Tag"),
        (lambda code: rendering.sequence(code, ["A", "B", "C"], "or"), "A, B, or C", "A, B oder C"),
    ],
)
def test_what_babel_writes(written, en, de):
    assert (written("en"), written("de")) == (en, de)


def test_clock_and_spans_differ_by_language():
    assert rendering.clock("en", MOMENT).split() == ["3:05", "PM"]
    assert rendering.clock("de", MOMENT) == "15:05"
    end = MOMENT.replace(day=8)
    assert rendering.span("en", MOMENT, end, "MMMd").split() == ["Mar", "5", "–", "8"]
    assert rendering.span("de", MOMENT, end, "MMMd") == "5.–8. März"
