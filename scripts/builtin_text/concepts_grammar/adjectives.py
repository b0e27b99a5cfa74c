"""Adjectives of the grammar and the nouns that each may stand with in any scene."""

from __future__ import annotations

from functools import cache

from builtin_text.concepts_grammar.nouns import CLASSES

_NOUNS_OF: dict[str, str] = {
    "young": "man woman farmer doctor nurse teacher chef artist dancer singer soldier sailor pilot "
    "mother father student waiter gardener painter king queen horse elephant lion",
    "old": "man woman farmer fisherman doctor teacher king queen sailor tailor carpenter painter "
    "dog horse cow donkey bridge castle church barn piano guitar map clock truck boat tree "
    "bench book village",
    "tall": "man woman soldier waiter guard tree ladder student teacher knight",
    "happy": "boy girl child mother father grandmother clown dancer student baker puppy dog",
    "tired": "farmer nurse doctor driver soldier hiker mother father student waiter",
    "little": "boy girl child bird puppy kitten mouse frog rabbit duck princess",
    "clever": "student fox monkey thief scientist girl boy",
    "brave": "firefighter soldier knight prince princess hunter pirate",
    "friendly": "neighbor waiter nurse teacher baker clown dog",
    "famous": "singer artist writer musician dancer photographer scientist painter",
    "proud": "father grandfather mother grandmother king queen",
    "hungry": "wolf bear fox lion tiger",
    "wild": "wolf bear fox deer lion tiger elephant monkey",
    "lazy": "cat dog donkey bear lion",
    "brown": "dog horse cow bear rabbit cat goat",
    "black": "cat dog horse sheep bird",
    "white": "cat horse rabbit goat sheep goose kitten",
    "gray": "donkey wolf squirrel mouse kitten elephant",
    "big": "box cake fish rock bear tree elephant",
    "small": "box cake fish boat bird tent bag",
    "red": "rose apple @color_things flower tractor tomato",
    "blue": "@color_things boat",
    "yellow": "@color_things flower taxi",
    "green": "apple @color_things frog tractor",
    "new": "guitar camera bike car house phone",
    "wooden": "bench chair table fence bridge boat spoon ladder box stool toy",
    "heavy": "box suitcase bag basket rock hammer",
    "long": "letter rope ladder scarf story poem train",
    "fresh": "bread fish milk fruit salad egg corn",
    "hot": "soup coffee tea pizza",
    "cold": "water milk juice lemonade",
    "sweet": "cake cookie honey pie",
    "delicious": "pizza cake soup pasta pie sandwich",
    "ripe": "apple pear tomato banana orange",
    "warm": "coat scarf sweater blanket",
    "soft": "pillow sofa blanket carpet",
    "beautiful": "flower dress painting song rose",
    "funny": "story joke movie clown song",
    "sharp": "knife axe saw sword",
    "quiet": "library street village church beach",
    "crowded": "beach station market street museum airport cafe restaurant",
    "busy": "street market restaurant station airport harbor kitchen",
    "dark": "forest cave street",
    "sunny": "garden park beach balcony yard meadow porch playground",
    "grassy": "hill meadow field",
    "deep": "snow",
}


@cache
def adjectives_of(noun: str) -> tuple[str, ...]:
    """Adjectives that may stand with the noun in any scene."""
    return tuple(
        adjective
        for adjective, nouns in _NOUNS_OF.items()
        if noun in nouns.replace("@color_things", " ".join(CLASSES["color_things"])).split()
    )
