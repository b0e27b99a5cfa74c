"""Pictures of the metrics m_i, from what adaptivity.json holds of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from damcha_core.experiments.export.drawing import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FloatArray = NDArray[np.float64]

NORMS = (
    ("mean_norm", "norm of the mean metric"),
    ("change_norm", "its distance from the start"),
    ("input_deviation", "deviation over inputs"),
    ("explained_share_of_change", "share of the change\nexplained by the input"),
)
"""What is drawn per layer and head, and its title."""


def head_values(record: Mapping[str, Any], key: str) -> FloatArray | None:
    """A quantity of every head.

    Args:
        record: of adaptivity.json.
        key: name of the quantity.

    Returns:
        (layers, heads) for a number, (layers, heads, K, K) for a matrix; None where the record
        does not hold it for every head.
    """
    try:
        values = np.array(
            [[head[key] for head in layer["heads"]] for layer in record["layers"]],
            dtype=np.float64,
        )
    except (KeyError, TypeError, ValueError):
        return None
    return values if values.size and values.ndim in (2, 4) else None


def norm_figure(name: str, record: Mapping[str, Any]) -> Figure | None:
    """Numbers of the metrics, a square a layer and head.

    Args:
        name: of the run.
        record: of its adaptivity.json.

    Returns:
        A panel a quantity, None without one.
    """
    found = [(title, head_values(record, key)) for key, title in NORMS]
    drawn = [(title, values) for title, values in found if values is not None and values.ndim == 2]
    return draw_norms(name, drawn) if drawn else None


def draw_norms(name: str, drawn: Sequence[tuple[str, FloatArray]]) -> Figure:
    """Heat maps of (layers, heads) arrays side by side.

    Args:
        name: above all of them.
        drawn: titles and arrays.
    """
    n_layers, n_heads = drawn[0][1].shape
    figure = new_figure(len(drawn) * max(2.4, 0.3 * n_heads + 1), max(2.0, 0.3 * n_layers + 1.2))
    panels = figure.subplots(1, len(drawn), squeeze=False)[0]
    for axes, (title, values_LH) in zip(panels, drawn, strict=True):
        image = axes.imshow(values_LH, cmap="viridis", aspect="auto")
        axes.set_title(title)
        axes.set_xlabel("head")
        axes.set_ylabel("layer")
        axes.set_xticks(range(n_heads))
        axes.set_yticks(range(n_layers))
        axes.grid(False)
        figure.colorbar(image, ax=axes)
    figure.suptitle(name)
    return figure


def map_figure(name: str, record: Mapping[str, Any]) -> Figure | None:
    """The mean metric of every head, K x K.

    Args:
        name: of the run.
        record: of its adaptivity.json.

    Returns:
        A row a layer, a column a head, one scale for all, zero white; None without them.
    """
    maps_LHKK = head_values(record, "mean_metric")
    if maps_LHKK is None or maps_LHKK.ndim != 4:
        return None
    n_layers, n_heads = maps_LHKK.shape[:2]
    largest = float(np.nanmax(np.abs(maps_LHKK))) or 1.0
    figure = new_figure(1.0 * n_heads + 1.2, 1.1 * n_layers + 0.5)
    panels = figure.subplots(n_layers, n_heads, squeeze=False)
    image = None
    for layer, row in enumerate(panels):
        for head, axes in enumerate(row):
            image = axes.imshow(maps_LHKK[layer, head], cmap="RdBu_r", vmin=-largest, vmax=largest)
            axes.set_title(f"layer {layer}, head {head}", fontsize=6)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.grid(False)
    assert image is not None
    figure.colorbar(image, ax=panels.ravel().tolist())
    figure.suptitle(f"{name}: mean metrics m_i")
    return figure
