"""Nouns of the grammar: classes that scenes name, and what has to be known to use a noun."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CLASSES: dict[str, tuple[str, ...]] = {
    name: tuple(words.split())
    for name, words in {
        "gendered": "man boy father woman girl mother",
        "kids": "boy girl child",
        "adults": "man woman tourist neighbor",
        "family": "mother father grandmother grandfather",
        "everyone": "man woman boy girl child student tourist neighbor",
        "pets": "dog cat puppy kitten",
        "color_things": "car bike truck shirt dress hat scarf balloon kite ball umbrella",
    }.items()
}
"""Classes, written @name in the scenes."""

PEOPLE = _words(
    "man boy father grandfather woman girl mother grandmother child student tourist "
    "neighbor artist baker carpenter chef clown cowboy dancer doctor driver farmer "
    "firefighter fisherman gardener guard hiker hunter king knight mechanic musician "
    "nurse painter pilot photographer pirate prince princess queen sailor scientist "
    "singer soldier tailor teacher thief waiter writer"
)
"""Those whom "he", "she" or "they" may stand for."""

MALE = _words("man boy father grandfather king prince")
FEMALE = _words("woman girl mother grandmother queen princess")

MASS = _words(
    "bread breakfast butter cheese chocolate coffee corn firewood fruit "
    "grass hair hay honey ice jam juice lemonade lunch meat milk money music "
    "pasta popcorn rice salad sand snow soup tea water wood"
)
"""Nouns that take no "a" and have no plural here."""

PLACES: dict[str, str] = {
    noun: preposition
    for preposition, nouns in {
        "in": (
            "barn bathroom bedroom cafe cage castle cave church city classroom desert "
            "field forest garage garden hall hospital jungle kitchen lake "
            "library meadow nest office park pond pool restaurant river sea snow "
            "stable street studio tent theater tree village workshop yard"
        ),
        "on": (
            "balcony beach bed bench branch bridge carpet chair deck farm floor "
            "grass hill ice island pillow playground porch rock roof sofa "
            "stage stairs stool table wall"
        ),
        "at": "airport bakery corner harbor market museum school station zoo",
    }.items()
    for noun in nouns.split()
}
"""The preposition that says that something is or happens there."""

PLURAL_ONLY = frozenset({"stairs"})

IRREGULAR_PLURALS: dict[str, str] = {
    "child": "children",
    "deer": "deer",
    "fish": "fish",
    "fisherman": "fishermen",
    "goose": "geese",
    "knife": "knives",
    "man": "men",
    "mouse": "mice",
    "photo": "photos",
    "piano": "pianos",
    "potato": "potatoes",
    "scarf": "scarves",
    "sheep": "sheep",
    "shelf": "shelves",
    "stairs": "stairs",
    "thief": "thieves",
    "tomato": "tomatoes",
    "tooth": "teeth",
    "wolf": "wolves",
    "woman": "women",
}
