"""MkDocs hook: blocks of TeX become MathML when the pages are built.

A fenced block with the language `math` holds one formula, or several with an empty line between
them. MathML is drawn by the browser itself, so the pages need neither a script nor a network.
GitHub draws the same blocks.
"""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert

BLOCK = re.compile(r"^```math\n(.*?)\n```$", re.DOTALL | re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs with the text of each page."""
    return BLOCK.sub(lambda match: formulas(match[1]), markdown)


def formulas(text: str) -> str:
    """HTML with the formulas of a block, one below the other."""
    return "\n".join(
        f'<div class="formula">{convert(tex, display="block")}</div>'
        for tex in (part.strip() for part in text.split("\n\n"))
        if tex
    )
