"""The items of CLDR that phrases are made of, by their codes; common ones first.

The order is part of the data set: items further up are drawn more often.
"""

from __future__ import annotations

from functools import cache

from babel.units import UnknownUnitError

from builtin_text.cldr.rendering import locale_of, quantity

LANGUAGES = ("en", "de")

# Both languages use these without an article, and German has "in", "nach" and "aus" before them.
_PLACES = (
    "DE FR IT ES AT CN JP PL SE BE CA IN BR GR PT DK NO FI CZ HU IE AU RU MX AR EG ZA KR TH HR RO "
    "BG IL ID VN MA CL KE NZ PE CO RS SI EE LV LT IS LU GE AL AM PK NG GH ET DZ TN JO SA QA KW KZ "
    "UZ NP LK BD MY SG TW KH UY PY BO EC VE PA CR GT HN CU HT NA ZM UG TZ CM AO "
    "ME MK BA AF LY SY OM BH LA MM KG TJ TM AZ BY LI AD MC NI SV BZ GY SR MZ ZW MW ML RW BW BJ "
    "BF BI GA GN LR LS SL SO SZ TG ER MR BT KP PG BN MG"
)
# These need an article in one of the languages (die Schweiz, the Netherlands) or are islands.
_OTHER_TERRITORIES = (
    "US GB CH NL TR UA SK IR IQ LB PH AE DO CY MT MN SN SD MV YE XK JM FJ MU BS BB NE"
)
_LANGUAGE_NAMES = (
    "en de fr es it zh ja ru pt nl pl sv da fi no el tr cs hu ar hi ko ro bg hr uk sr sk sl et lv "
    "lt he th vi id fa ca eu ga cy is sq mk hy ka az kk uz mn ne bn ta te ur ms sw af mt lb eo la "
    "be bs gl so km lo my si ku ps pa gu kn ml mr am ti rw sn xh zu yo ig ha wo mg mi sm to fj qu "
    "gn ht jv su br co fy fo sc rm oc yi kl bo ug tk tg tt"
)
_CURRENCIES = (
    "EUR USD GBP CHF JPY CAD AUD SEK NOK DKK PLN CZK HUF TRY CNY INR KRW BRL MXN ZAR NZD ILS THB "
    "EGP SGD HKD RON UAH ISK MAD ARS CLP COP PEN KES IDR MYR PHP VND RSD"
)
# By what they measure. The Babel code is "<dimension>-<unit>".
_UNITS = {
    "length": "kilometer meter centimeter mile millimeter foot inch yard nautical-mile light-year",
    "mass": "kilogram gram tonne pound ounce milligram",
    "volume": "liter milliliter cubic-meter gallon centiliter barrel",
    "speed": "kilometer-per-hour meter-per-second mile-per-hour knot",
    "temperature": "celsius fahrenheit kelvin",
    "area": "square-meter hectare square-kilometer acre square-foot square-mile",
    "digital": "megabyte gigabyte kilobyte terabyte byte",
    "energy": "kilowatt-hour kilojoule kilocalorie joule",
    "power": "kilowatt watt megawatt horsepower",
    "pressure": "bar hectopascal millibar",
    "electric": "volt ampere ohm",
    "frequency": "hertz megahertz gigahertz",
    "graphics": "pixel megapixel",
}
_N_IN_SHORT = 40
TIME_UNITS = ("day", "hour", "minute", "week", "year", "month", "second")


@cache
def places() -> tuple[str, ...]:
    """Codes of countries that follow a preposition without an article in both languages."""
    return tuple(code for code in _PLACES.split() if _known("territories", code))


@cache
def territories() -> tuple[str, ...]:
    """Codes of all countries used; those with an article stand by themselves, as in a label."""
    others = [code for code in _OTHER_TERRITORIES.split() if _known("territories", code)]
    mixed = list(places())
    # Among the common places, every second rank, so that Switzerland is no rare word.
    for at, code in enumerate(others):
        mixed.insert(min(2 * at + 1, len(mixed)), code)
    return tuple(mixed)


@cache
def language_names() -> tuple[str, ...]:
    """Codes of the languages named in phrases."""
    return tuple(code for code in _LANGUAGE_NAMES.split() if _known("languages", code))


@cache
def currencies() -> tuple[str, ...]:
    """Codes of the currencies."""
    return tuple(code for code in _CURRENCIES.split() if _known("currencies", code))


@cache
def units(dimension: str) -> tuple[str, ...]:
    """Babel codes of the units of a dimension, such as "length"; "" gives those of all."""
    if dimension:
        codes = [f"{dimension}-{unit}" for unit in _UNITS[dimension].split()]
        return tuple(code for code in codes if _known_unit(code))
    by_rank = [(rank, code) for name in _UNITS for rank, code in enumerate(units(name))]
    return tuple(code for _, code in sorted(by_rank, key=lambda pair: pair[0]))


@cache
def units_in_short() -> tuple[str, ...]:
    """Babel codes of the units that are also written by their sign."""
    return units("")[:_N_IN_SHORT]


def _known(names: str, code: str) -> bool:
    # An older Babel may lack a name; the phrases then do without it.
    return all(code in getattr(locale_of(language), names) for language in LANGUAGES)


def _known_unit(code: str) -> bool:
    try:
        return all(bool(quantity(language, 2, code)) for language in LANGUAGES)
    except UnknownUnitError:
        return False
