"""The phrases into which CLDR items are put, in both languages.

They are our own. CLDR gives names in the nominative and without an article, so a template either
is a label ("Reiseziel: Schweiz"), or its place asks for just that form: countries after a German
preposition are only those without an article ("nach Polen"), adjectives stand before no noun of
a template, and amounts follow verbs and "mindestens", where their form is that of the nominative.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

_SLOT = re.compile(r"\{(\w+?)(2?)\}")


@dataclass(frozen=True)
class Template:
    """One phrase with slots, in both languages.

    Args:
        name: the pattern's name; part of what decides which combinations are held out.
        en: English, slots in braces by the names of `slots.SLOTS`; a 2 at the end of a name
            tells the second slot of a kind from the first.
        de: German, the same slots.
        weight: how often it is drawn, beside the others.
    """

    name: str
    en: str
    de: str
    weight: int = 4

    @cached_property
    def slots(self) -> tuple[tuple[str, str], ...]:
        """(field, kind of slot) in the order of the English text."""
        return tuple((kind + second, kind) for kind, second in _SLOT.findall(self.en))


def _alone(kind: str, weight: int = 2) -> Template:
    return Template(f"{kind} alone", f"{{{kind}}}", f"{{{kind}}}", weight)


TEMPLATES: tuple[Template, ...] = (
    # Items alone.
    _alone("territory", 1),
    _alone("language", 1),
    _alone("currency", 1),
    _alone("weekday", 1),
    _alone("month_of_year"),
    _alone("quarter", 1),
    _alone("date_full"),
    _alone("date_long"),
    _alone("date_medium"),
    _alone("date_short"),
    _alone("day_of_week"),
    _alone("day_span", 4),
    _alone("clock_span"),
    _alone("past"),
    _alone("future"),
    _alone("duration", 1),
    _alone("number"),
    _alone("rounded", 1),
    _alone("money", 4),
    _alone("money_name", 4),
    _alone("quantity", 4),
    _alone("quantity_short", 4),
    # Countries.
    Template(
        "destination",
        "Destination: {territory}, departure {clock}",
        "Reiseziel: {territory}, Abflug {clock} Uhr",
    ),
    Template(
        "birthplace",
        "Country of birth: {territory}, year: {year}",
        "Geburtsland: {territory}, Jahr: {year}",
        3,
    ),
    Template("countries", "Countries: {territories}", "Länder: {territories}", 5),
    Template("made in", "made in {place} in {year}", "{year} in {place} hergestellt", 3),
    Template("branches", "Branches in {places}", "Filialen in {places}"),
    Template(
        "population",
        "{territory}, population {rounded}",
        "{territory}, Einwohnerzahl {rounded}",
    ),
    Template(
        "flights",
        "Flights to {place} leave on {weekday} at {clock}",
        "Flüge nach {place} starten am {weekday} um {clock} Uhr",
    ),
    Template(
        "imports",
        "Imports from {place} rose by {percent}",
        "Die Einfuhren aus {place} stiegen um {percent}",
    ),
    Template(
        "railway",
        "Train from {place} to {place2}: {duration}",
        "Zug von {place} nach {place2}: {duration}",
    ),
    Template("weather", "It is {degrees} in {place}", "In {place} sind es {degrees}"),
    Template("postage", "Postage to {place}: {money}", "Porto nach {place}: {money}"),
    Template("spoken", "In {place} they speak {language}", "In {place} spricht man {language}"),
    Template(
        "moved",
        "We moved from {place} to {place2} in {month_of_year}",
        "Wir sind im {month_of_year} von {place} nach {place2} gezogen",
    ),
    Template(
        "office",
        "The office in {place} opens at {clock}",
        "Das Büro in {place} öffnet um {clock} Uhr",
    ),
    # Languages.
    Template("speaks", "She speaks {languages}", "Sie spricht {languages}", 5),
    Template(
        "instructions", "Instructions in {either_language}", "Anleitung auf {either_language}", 5
    ),
    Template(
        "dictionary",
        "Dictionary: {language} – {language2}",
        "Wörterbuch: {language} – {language2}",
        5,
    ),
    Template(
        "book",
        "The book appeared in {language} in {year}",
        "Das Buch erschien {year} auf {language}",
    ),
    Template(
        "course",
        "Course in {language} on {weekday} at {clock}",
        "Kurs in {language} am {weekday} um {clock} Uhr",
    ),
    Template(
        "learning",
        "I began to learn {language} {past}",
        "Ich habe {past} begonnen, {language} zu lernen",
    ),
    # Currencies.
    Template("currency in", "Currency in {place}: {currency}", "Währung in {place}: {currency}", 3),
    Template("currencies", "Currencies: {currencies}", "Währungen: {currencies}", 3),
    Template(
        "payment", "Means of payment: {either_currency}", "Zahlungsmittel: {either_currency}", 2
    ),
    Template("rate", "{currency}: up {percent}", "{currency}: plus {percent}", 3),
    Template("total", "Total: {money}", "Gesamtbetrag: {money}"),
    Template("ticket", "The ticket costs {money}", "Die Karte kostet {money}"),
    Template("tax", "{money} plus {percent} tax", "{money} zuzüglich {percent} Steuer"),
    Template("paid", "They paid {money_name} {past}", "Sie haben {past} {money_name} bezahlt"),
    Template("donation", "Donation: {money_name}", "Spende: {money_name}"),
    Template(
        "repair",
        "The repair costs at least {money_name}",
        "Die Reparatur kostet mindestens {money_name}",
    ),
    # Units.
    Template("deal", "{quantity} for {money}", "{quantity} für {money}"),
    Template("at least", "at least {quantity}", "mindestens {quantity}", 4),
    Template("limit", "Limit: {quantity_short}", "Grenzwert: {quantity_short}"),
    Template(
        "setting",
        "Setting from {clock}: {quantity_short}",
        "Einstellung ab {clock} Uhr: {quantity_short}",
    ),
    Template("maximum", "{quantity_short} (maximum)", "{quantity_short} (Höchstwert)", 3),
    Template("about", "about {quantity}", "etwa {quantity}", 3),
    Template("station", "The station is {length} away", "Der Bahnhof ist {length} entfernt"),
    Template("parcel", "The parcel weighs {mass}", "Das Paket wiegt {mass}"),
    Template("tank", "The tank holds {volume}", "Der Tank fasst {volume}"),
    Template("top speed", "Top speed: {speed}", "Höchstgeschwindigkeit: {speed}", 2),
    Template("land", "Plot of land: {area}", "Grundstück: {area}", 2),
    Template("file", "The file has {digital}", "Die Datei hat {digital}", 2),
    Template(
        "consumption",
        "Consumption in {month}: {energy}",
        "Verbrauch im {month}: {energy}",
        3,
    ),
    Template("output", "Power: {power}", "Leistung: {power}", 2),
    Template("pressure", "Pressure: {pressure}", "Druck: {pressure}", 2),
    # Dates and times.
    Template("born", "born on {date_long}", "geboren am {date_long}", 3),
    Template("valid", "Valid until {date_medium}", "Gültig bis {date_medium}", 3),
    Template("deadline", "Deadline: {date_full}", "Frist: {date_full}", 2),
    Template(
        "invoice", "Invoice of {date_short}: {money}", "Rechnung vom {date_short}: {money}", 3
    ),
    Template(
        "appointment",
        "Appointment: {day_of_week}, {clock}",
        "Termin: {day_of_week}, {clock} Uhr",
        3,
    ),
    Template(
        "meeting",
        "The meeting on {weekday} starts at {clock}",
        "Die Sitzung am {weekday} beginnt um {clock} Uhr",
    ),
    Template("open", "Open on {weekday}: {clock_span}", "Geöffnet am {weekday}: {clock_span}", 3),
    Template("holidays", "Holidays: {day_span}", "Ferien: {day_span}", 4),
    Template("changed", "Last change: {past}", "Letzte Änderung: {past}", 2),
    Template("departs", "The train leaves {future}", "Der Zug fährt {future} ab", 3),
    Template(
        "delay", "The flight is delayed by {duration}", "Der Flug hat {duration} Verspätung", 3
    ),
    Template("journey", "The journey takes {durations}", "Die Fahrt dauert {durations}"),
    Template("opens", "The shop opens {future}", "Der Laden öffnet {future}", 2),
    Template("flies", "We fly to {place} {future}", "Wir fliegen {future} nach {place}"),
    Template("delivery", "Delivery on {day_of_week}", "Lieferung am {day_of_week}", 3),
    Template("report", "Report for the {quarter}", "Bericht für das {quarter}", 2),
    Template(
        "prices",
        "In the {quarter}, prices rose by {percent}",
        "Im {quarter} stiegen die Preise um {percent}",
        3,
    ),
    Template("turnover", "Sales in the {quarter}: {money}", "Umsatz im {quarter}: {money}", 3),
    # Numbers.
    Template(
        "visitors",
        "On {day_of_month}, {visitors} visitors came",
        "Am {day_of_month} kamen {visitors} Besucher",
    ),
    Template("discount", "{percent} discount on {weekday}", "Am {weekday} {percent} Rabatt", 3),
    Template(
        "sales",
        "In {month_of_year}, sales rose by {percent}",
        "Im {month_of_year} stieg der Umsatz um {percent}",
    ),
    Template("people", "{rounded} people", "{rounded} Menschen", 2),
)
"""All templates; the order is part of the data set."""
