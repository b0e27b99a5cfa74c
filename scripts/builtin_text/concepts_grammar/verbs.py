"""Verbs of the grammar: how each is told, its adverb and its irregular forms."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _pairs(text: str) -> dict[str, str]:
    parted = (pair.partition("-") for pair in text.split())
    return {verb: form for verb, _, form in parted}


PAST_TOLD = _words(
    "break bring buy catch choose discover find forget give hear hide invite lose order "
    "receive see send steal visit win"
)
"""Verbs of a moment: "found" is said rather than "is finding"."""

STATES = _words("love want")
"""Verbs of a state: "wants", never "is wanting"."""

SHARED = _words(
    "admire bark build bury carry chase clean climb cross decorate draw drive explore "
    "feed fix follow guard hang help hunt load move paint pack plant practice prepare "
    "protect pull push repair sail search see sell sing find discover visit study wash watch wrap"
)
"""Verbs that several can do to one thing."""

ADVERBS: dict[str, str] = {
    verb: adverb
    for adverb, verbs in {
        "quickly": "chase eat fix hide pack wash run cross climb catch load",
        "slowly": "drive walk push pull ride stir crawl",
        "carefully": "carry clean cut decorate measure paint repair wrap prepare plant",
        "happily": "dance play sing feed jump",
        "quietly": "read sit sleep study swim write listen knit wait rest lie",
        "proudly": "wear show",
        "bravely": "guard protect",
        "loudly": "bark laugh talk",
        "patiently": "teach fish practice hunt",
        "gently": "brush pet hug",
        "gracefully": "skate",
    }.items()
    for verb in verbs.split()
}

IRREGULAR_PAST: dict[str, str] = _pairs(
    "break-broke bring-brought build-built buy-bought catch-caught choose-chose cut-cut "
    "dig-dug draw-drew drink-drank drive-drove eat-ate feed-fed fight-fought find-found "
    "fly-flew forget-forgot give-gave hang-hung hear-heard hide-hid hold-held lead-led "
    "lie-lay lose-lost make-made put-put read-read ride-rode run-ran see-saw sell-sold "
    "send-sent sing-sang sit-sat sleep-slept spread-spread stand-stood steal-stole "
    "sweep-swept swim-swam swing-swung teach-taught tell-told throw-threw wear-wore win-won "
    "write-wrote"
)
