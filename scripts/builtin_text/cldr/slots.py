"""What can stand in a slot of a template, and how it is drawn.

A filling names the CLDR items in it, form by form: "month:3" is a month written out, "mon:3" a
month in short, because knowing one form does not help with the other. Numbers, years, clock times
and dates in figures hold no items: they follow rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial

from builtin_text.cldr import items, rendering
from builtin_text.draws import Draws

FIRST_YEAR, LAST_YEAR = 1990, 2029
_MAY = 5
_CENTS = ("00", "50", "00", "99", "20", "95", "00", "75")


@dataclass(frozen=True)
class Filling:
    """What fills a slot.

    Attributes:
        items: the CLDR items in it, such as "territory:DE".
        render: its text in a language, by the code of the language.
    """

    items: tuple[str, ...]
    render: Callable[[str], str]


Slot = Callable[[Draws], Filling]


def _whole(draws: Draws) -> int:
    size = draws.below(20)
    if size < 8:
        return 1 + draws.below(20)
    if size < 16:
        return 10 + draws.below(90)
    return 100 + draws.below(900) if size < 19 else 1000 + draws.below(9000)


def _value(draws: Draws) -> int | Decimal:
    if draws.below(4):
        return _whole(draws)
    tenths = 11 + draws.below(489)
    return Decimal(tenths).scaleb(-1) if tenths % 10 else tenths // 10


def _amount(draws: Draws) -> Decimal:
    # At least 2: German has another ending after a verb for one Japanese yen than for two.
    return Decimal(f"{max(2, _whole(draws))}.{draws.pick(_CENTS)}")


def _day(draws: Draws) -> datetime:
    first, end = datetime(FIRST_YEAR, 1, 1), datetime(LAST_YEAR + 1, 1, 1)
    return first + timedelta(days=draws.below((end - first).days))


def _moment(draws: Draws) -> datetime:
    return datetime(2000, 1, 3, draws.below(24), 5 * draws.below(12))


def _count(draws: Draws) -> int:
    return 1 + draws.below(12) if draws.below(3) else 10 + draws.below(50)


def _named(
    family: str, codes: Callable[[], Sequence[str]], name: Callable[[str, str], str], draws: Draws
) -> Filling:
    code = draws.skewed(codes())
    return Filling((f"{family}:{code}",), lambda language: name(language, code))


def _listed(slot: Slot, style: str, longest: int, draws: Draws) -> Filling:
    fillings = [slot(draws) for _ in range(2 + draws.below(longest - 1))]
    return Filling(
        tuple(item for filling in fillings for item in filling.items),
        lambda language: rendering.sequence(
            language, [filling.render(language) for filling in fillings], style
        ),
    )


def _money(draws: Draws) -> Filling:
    code, amount = draws.skewed(items.currencies()), _amount(draws)
    return Filling((f"money:{code}",), lambda language: rendering.money(language, amount, code))


def _money_name(draws: Draws) -> Filling:
    code, amount = draws.skewed(items.currencies()), _amount(draws)
    return Filling(
        (f"money-name:{code}",), lambda language: rendering.money_name(language, amount, code)
    )


def _quantity(dimension: str, draws: Draws) -> Filling:
    unit, value = draws.skewed(items.units(dimension)), _value(draws)
    return Filling((f"unit:{unit}",), lambda language: rendering.quantity(language, value, unit))


def _quantity_short(draws: Draws) -> Filling:
    unit, value = draws.skewed(items.units_in_short()), _value(draws)
    return Filling(
        (f"unit-short:{unit}",), lambda language: rendering.quantity_short(language, value, unit)
    )


def _degrees(draws: Draws) -> Filling:
    unit, value = draws.skewed(items.units("temperature")), 2 + draws.below(38)
    return Filling((f"unit:{unit}",), lambda language: rendering.quantity(language, value, unit))


def _date(style: str, families: Sequence[str], draws: Draws) -> Filling:
    day = _day(draws)
    while style == "medium" and day.month == _MAY:
        # English writes "May 23, 1996" in two styles, German 23.05.1996 and 23. Mai 1996.
        day = _day(draws)
    numbers = {
        "month": day.month,
        "mon": day.month,
        "quarter": (day.month + 2) // 3,
        "weekday": day.weekday(),
        "wkd": day.weekday(),
    }
    return Filling(
        tuple(f"{family}:{numbers[family]}" for family in families),
        lambda language: rendering.date(language, day, style),
    )


def _weekday(draws: Draws) -> Filling:
    number = draws.below(7)
    return Filling((f"weekday:{number}",), lambda language: rendering.weekday(language, number))


def _month(draws: Draws) -> Filling:
    number = 1 + draws.below(12)
    return Filling((f"month:{number}",), lambda language: rendering.month(language, number))


def _year(draws: Draws) -> Filling:
    year = FIRST_YEAR + draws.below(LAST_YEAR - FIRST_YEAR + 1)
    return Filling((), lambda language: str(year))


def _clock(draws: Draws) -> Filling:
    moment = _moment(draws)
    return Filling((), lambda language: rendering.clock(language, moment))


def _clock_span(draws: Draws) -> Filling:
    start = datetime(2000, 1, 3, draws.below(22), 15 * draws.below(4))
    end = start + timedelta(minutes=15 * (2 + draws.below(6)))
    # English tells the time by twelve hours, German by twenty-four.
    skeletons = {"en": "hm", "de": "Hm"}
    return Filling((), lambda language: rendering.span(language, start, end, skeletons[language]))


def _day_span(draws: Draws) -> Filling:
    start = _day(draws)
    end = start + timedelta(days=1 + draws.below(20))
    months = dict.fromkeys(f"mon:{day.month}" for day in (start, end))
    return Filling(tuple(months), lambda language: rendering.span(language, start, end, "MMMd"))


def _duration(draws: Draws) -> Filling:
    unit, count = draws.skewed(items.TIME_UNITS), _count(draws)
    return Filling(
        (f"duration:{unit}",), lambda language: rendering.duration(language, count, unit)
    )


def _relative(family: str, draws: Draws) -> Filling:
    unit, count = draws.skewed(items.TIME_UNITS), _count(draws)
    signed = -count if family == "past" else count
    return Filling(
        (f"{family}:{unit}",), lambda language: rendering.relative(language, signed, unit)
    )


def _number(draws: Draws) -> Filling:
    value = _value(draws)
    return Filling((), lambda language: rendering.number(language, value))


def _visitors(draws: Draws) -> Filling:
    value = max(2, _whole(draws))
    return Filling((), lambda language: rendering.number(language, value))


def _percent(draws: Draws) -> Filling:
    value = Decimal(5 + 5 * draws.below(120) if draws.below(3) else 10 + 10 * draws.below(99))
    return Filling((), lambda language: rendering.percent(language, value.scaleb(-3)))


def _rounded(draws: Draws) -> Filling:
    power = draws.pick((6, 6, 9))
    leading = 11 + draws.below(89) if draws.below(2) else 20 + 10 * draws.below(90)
    value = leading * 10 ** (power - 1)
    return Filling((f"rounded:{power}",), lambda language: rendering.rounded(language, value))


_place = partial(_named, "territory", items.places, rendering.territory)
_territory = partial(_named, "territory", items.territories, rendering.territory)
_language = partial(_named, "language", items.language_names, rendering.language_name)

_currency = partial(_named, "currency", items.currencies, rendering.currency)

SLOTS: Mapping[str, Slot] = {
    "territory": _territory,
    "territories": partial(_listed, _territory, "standard", 3),
    "place": _place,
    "places": partial(_listed, _place, "standard", 3),
    "language": _language,
    "languages": partial(_listed, _language, "standard", 3),
    "either_language": partial(_listed, _language, "or", 3),
    "currency": _currency,
    "currencies": partial(_listed, _currency, "standard", 3),
    "either_currency": partial(_listed, _currency, "or", 3),
    "money": _money,
    "money_name": _money_name,
    "quantity": partial(_quantity, ""),
    "quantity_short": _quantity_short,
    "length": partial(_quantity, "length"),
    "mass": partial(_quantity, "mass"),
    "volume": partial(_quantity, "volume"),
    "speed": partial(_quantity, "speed"),
    "area": partial(_quantity, "area"),
    "digital": partial(_quantity, "digital"),
    "energy": partial(_quantity, "energy"),
    "power": partial(_quantity, "power"),
    "pressure": partial(_quantity, "pressure"),
    "degrees": _degrees,
    "date_full": partial(_date, "full", ("weekday", "month")),
    "date_long": partial(_date, "long", ("month",)),
    "date_medium": partial(_date, "medium", ("mon",)),
    "date_short": partial(_date, "short", ()),
    "day_of_month": partial(_date, "MMMMd", ("month",)),
    "day_of_week": partial(_date, "MMMEd", ("wkd", "mon")),
    "month_of_year": partial(_date, "yMMMM", ("month",)),
    "quarter": partial(_date, "yQQQQ", ("quarter",)),
    "weekday": _weekday,
    "month": _month,
    "year": _year,
    "clock": _clock,
    "clock_span": _clock_span,
    "day_span": _day_span,
    "duration": _duration,
    "durations": partial(_listed, _duration, "standard", 2),
    "past": partial(_relative, "past"),
    "future": partial(_relative, "future"),
    "number": _number,
    "visitors": _visitors,
    "percent": _percent,
    "rounded": _rounded,
}
"""Every kind of slot, by the name that templates use."""
