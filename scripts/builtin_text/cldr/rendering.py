"""What Babel makes of single items in a language; every function gives the text as CLDR has it.

Narrow, thin and no-break spaces stay (German "12 %" holds U+00A0, English "3:07 PM" U+202F): they
are part of what CLDR says. None of them breaks a line.

No function reads the clock, the time zone or the locale of the machine: dates and times are given
as naive date-times, which Babel takes as they are, and the language always is an argument.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache, lru_cache

from babel import Locale, dates, lists, numbers, units

_CACHE = 1 << 15
# Above any number of units: Babel then keeps to the granularity it was told.
_NO_THRESHOLD = 1e9
_UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
_UNIT_SECONDS = {"second": 1, "minute": 60, "hour": 3600}

Number = int | Decimal


@cache
def locale_of(language: str) -> Locale:
    """Babel's locale of a language code, such as "de"."""
    return Locale.parse(language)


def territory(language: str, code: str) -> str:
    """Name of a country by its ISO 3166 code."""
    return str(locale_of(language).territories[code])


def language_name(language: str, code: str) -> str:
    """Name of a language by its code."""
    return str(locale_of(language).languages[code])


def currency(language: str, code: str) -> str:
    """Name of a currency by its ISO 4217 code."""
    return str(locale_of(language).currencies[code])


@lru_cache(maxsize=_CACHE)
def money(language: str, amount: Decimal, code: str) -> str:
    """An amount with the sign of its currency: €2.50."""
    return numbers.format_currency(amount, code, locale=locale_of(language))


@lru_cache(maxsize=_CACHE)
def money_name(language: str, amount: Decimal, code: str) -> str:
    """An amount with the name of its currency: 2.50 euros."""
    return numbers.format_currency(amount, code, locale=locale_of(language), format_type="name")


@lru_cache(maxsize=_CACHE)
def quantity(language: str, number: Number, unit: str) -> str:
    """A number of units, the unit by name: 3 kilometers."""
    return units.format_unit(number, unit, "long", locale=locale_of(language))


@lru_cache(maxsize=_CACHE)
def quantity_short(language: str, number: Number, unit: str) -> str:
    """A number of units, the unit by its sign: 3 km."""
    return units.format_unit(number, unit, "short", locale=locale_of(language))


@lru_cache(maxsize=_CACHE)
def number(language: str, value: Number) -> str:
    """A decimal number: 1,234 or 12.5."""
    return numbers.format_decimal(value, locale=locale_of(language))


@lru_cache(maxsize=_CACHE)
def percent(language: str, value: Decimal) -> str:
    """A share of one as percent: 12.5%."""
    return numbers.format_percent(value, locale=locale_of(language), decimal_quantization=False)


@lru_cache(maxsize=_CACHE)
def rounded(language: str, value: int) -> str:
    """A large number in words, with at most one decimal: 2.5 million."""
    return numbers.format_compact_decimal(
        value, format_type="long", locale=locale_of(language), fraction_digits=1
    )


@lru_cache(maxsize=_CACHE)
def date(language: str, day: datetime, style: str) -> str:
    """A date in one of Babel's four styles, or by the skeleton of its fields.

    Args:
        language: code of the language.
        day: the date.
        style: "full", "long", "medium", "short", or a CLDR skeleton such as "yMMMM".
    """
    locale = locale_of(language)
    if style in ("full", "long", "medium", "short"):
        return dates.format_date(day, style, locale=locale)
    return dates.format_skeleton(style, day, locale=locale)


@lru_cache(maxsize=_CACHE)
def clock(language: str, moment: datetime) -> str:
    """Hours and minutes: 3:07 PM, 15:07."""
    return dates.format_time(moment, "short", locale=locale_of(language))


@lru_cache(maxsize=_CACHE)
def span(language: str, start: datetime, end: datetime, skeleton: str) -> str:
    """From one moment to another, by a CLDR skeleton such as "MMMd": Mar 5 – 8."""
    return dates.format_interval(start, end, skeleton, locale=locale_of(language))


def weekday(language: str, number: int) -> str:
    """Name of a weekday, Monday is 0."""
    return str(locale_of(language).days["format"]["wide"][number])


def month(language: str, number: int) -> str:
    """Name of a month, January is 1, as it stands by itself."""
    return str(locale_of(language).months["stand-alone"]["wide"][number])


@lru_cache(maxsize=_CACHE)
def duration(language: str, count: int, unit: str) -> str:
    """A length of time in one unit, "second" to "year": 3 days."""
    return _timedelta(language, count, unit, add_direction=False)


@lru_cache(maxsize=_CACHE)
def relative(language: str, count: int, unit: str) -> str:
    """How long ago (count negative) or ahead: 3 days ago, in 3 days."""
    return _timedelta(language, count, unit, add_direction=True)


def _timedelta(language: str, count: int, unit: str, *, add_direction: bool) -> str:
    length = timedelta(days=_UNIT_DAYS.get(unit, 0), seconds=_UNIT_SECONDS.get(unit, 0))
    return dates.format_timedelta(
        count * length,
        granularity=unit,  # type: ignore[arg-type]
        threshold=_NO_THRESHOLD,
        add_direction=add_direction,
        locale=locale_of(language),
    )


def sequence(language: str, texts: list[str], style: str) -> str:
    """A list of texts, style "standard" (and) or "or"."""
    return lists.format_list(texts, style=style, locale=locale_of(language))  # type: ignore[arg-type]
