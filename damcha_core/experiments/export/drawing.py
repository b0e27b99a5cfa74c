"""Figures drawn into memory: no display, no window system, no setting of the machine's owner."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c564b"),
    *("#7f7f7f", "#17becf", "#9467bd", "#bcbd22", "#1b9e77"),
)
"""Told apart by most readers, also the colour-blind; the first seven above all."""
MARKERS = "osD^vPX<>*hpd"
DOTS_PER_INCH = 120


@contextmanager
def drawing() -> Iterator[None]:
    """Settings under which figures are made and written, whatever the machine's own are.

    Text is text: no $ starts a formula. pyplot, which alone would choose a backend, is not used.
    """
    from matplotlib import style

    settings: dict[str, Any] = {
        "text.parse_math": False,
        "font.size": 8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#e0e0e0",
        "axes.axisbelow": True,
        "legend.frameon": False,
        "svg.hashsalt": "damcha",
    }
    with warnings.catch_warnings(), style.context(["default", settings]):
        # A letter that the font lacks becomes a box, and the numbers are in the tables.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches, that finds room for its labels."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def written(figure: Figure) -> dict[str, bytes]:
    """A figure as the content of files.

    Args:
        figure: made under `drawing`.

    Returns:
        By file ending: png for looking at, pdf for a paper. The same figure gives the same bytes.
    """
    contents = {}
    nothing = {"png": {"Software": None}, "pdf": {"CreationDate": None, "Producer": None}}
    for ending, metadata in nothing.items():
        stream = io.BytesIO()
        figure.savefig(stream, format=ending, dpi=DOTS_PER_INCH, metadata=metadata)
        contents[ending] = stream.getvalue()
    return contents


def colour(names: Sequence[str], name: str) -> str:
    """The colour of a name, the same in every figure of a study."""
    return COLOURS[names.index(name) % len(COLOURS)]


def marker(names: Sequence[str], name: str) -> str:
    """The marker of a name, the same in every figure of a study."""
    return MARKERS[names.index(name) % len(MARKERS)]


def amount(value: float, _place: int | None = None) -> str:
    """A tick of a logarithmic axis: 1.5M for one and a half million."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"


def log_axis(axes: Axes, values: Sequence[float]) -> None:
    """Make the x axis logarithmic with a few plain ticks that span the values."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    low, high = min(values), max(values)
    axes.set_xscale("log")
    axes.set_xlim(low / 1.3, high * 1.3)
    steps = [m * 10.0**e for e in range(_power(low) - 1, _power(high) + 2) for m in (1, 2, 5)]
    ticks = [step for step in steps if low / 1.3 <= step <= high * 1.3]
    if len(ticks) < 3:
        ticks = sorted({low, high})
    axes.xaxis.set_major_locator(FixedLocator(ticks[:: max(1, math.ceil(len(ticks) / 6))]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(amount))


def _power(value: float) -> int:
    return math.floor(math.log10(value))
