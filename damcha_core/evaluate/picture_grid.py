"""A labelled PNG of restorations: one row a picture, original | masked | restored.

Pictures are enlarged by a whole factor without smoothing, so a drawn pixel is the pixel of the
picture. Visible patches of all three panels are the original's own values; hidden ones are
hatched grey in the middle panel and the clipped prediction in the right one. Nothing here needs
a display.

Legend: C channels, S image side, N panels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor
from torchvision.utils import make_grid

from damcha_core.errors import ConfigError, DiskError, ShapeError
from damcha_core.files import replace_file

TITLES = ("original", "masked", "restored")
LEGEND = "masked: hidden patches are hatched grey; restored: visible patches are the original's"

HATCH_GREYS = (104, 152)
"""The two greys of the hatch, which stand for hidden patches."""

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
Box = tuple[int, int, int, int]

INK = (0, 0, 0)
PAPER = (255, 255, 255)
FONT_SIZE = 14
LINE_HEIGHT = FONT_SIZE + 4
MARGIN = 8
HATCH_WIDTH = 3
SMALLEST_PANEL = 96
LONGEST_CAPTION = 40
LONGEST_NOTE = 200


@dataclass(frozen=True)
class PictureRow:
    """One picture of the grid.

    Args:
        original: (C, S, S) in [0, 1], C 1 (grey) or 3 (RGB).
        predicted: (C, S, S), clipped to [0, 1] when drawn; only hidden pixels are used.
        hidden: (1, S, S) or (S, S) bool, True where the pixel is hidden.
        caption: lines beside the row, such as the file name and its masked_psnr.
    """

    original: Tensor
    predicted: Tensor
    hidden: Tensor
    caption: tuple[str, ...] = ()


@dataclass(frozen=True)
class GridGeometry:
    """Where the panels of a written grid are.

    Args:
        scale: drawn pixels a picture pixel, each way.
        panel_side: drawn pixels a panel, each way.
        size: width and height of the whole PNG in drawn pixels.
        boxes: for each row the (left, top, right, bottom) of its three panels, as Pillow crops.
    """

    scale: int
    panel_side: int
    size: tuple[int, int]
    boxes: tuple[tuple[Box, ...], ...]


def check_grid_path(path: Path) -> None:
    """Refuse a path that no grid can be written to, before any work is done for it.

    Args:
        path: where the grid is to go.

    Raises:
        ConfigError: its name does not end in .png (a ValueError too).
        DiskError: its folder does not exist, or the path is itself a folder.
    """
    if path.suffix.lower() != ".png":
        raise ConfigError(
            [f"A picture grid is written as PNG: {path} must end in .png, not {path.suffix!r}."]
        )
    try:
        has_parent, is_folder = path.parent.is_dir(), path.is_dir()
    except OSError as error:  # a folder above that may not be entered, or an overlong name
        raise DiskError(f"Cannot write {path}: {error.strerror}.") from error
    if not has_parent:
        raise DiskError(f"Cannot write {path}: the folder {path.parent} does not exist.")
    if is_folder:
        raise DiskError(f"Cannot write {path}: it is a folder.")


def write_picture_grid(
    path: Path, rows: Sequence[PictureRow], *, scale: int = 0, note: str = ""
) -> GridGeometry:
    """Draw the rows and put the PNG in place in one step, so that no half file is ever there.

    Args:
        path: ends in .png; an existing file is replaced.
        rows: at least one, all pictures of one side.
        scale: drawn pixels a picture pixel; 0 makes a panel at least 96 pixels wide.
        note: a line under the legend.

    Returns:
        Where the panels are.

    Raises:
        ConfigError: the path does not end in .png (a ValueError too).
        DiskError: the file cannot be written.
        ShapeError: tensors of a row do not fit, or rows differ in side.
        ValueError: no rows, or a negative scale.
    """
    check_grid_path(path)
    canvas, geometry = draw_picture_grid(rows, scale=scale, note=note)
    try:
        replace_file(path, lambda file: canvas.save(file, format="PNG"))
    except OSError as error:
        raise DiskError(f"Cannot write {path}: {error.strerror or error}.") from error
    return geometry


def draw_picture_grid(
    rows: Sequence[PictureRow], *, scale: int = 0, note: str = ""
) -> tuple[Image.Image, GridGeometry]:
    """The grid as a Pillow picture; see `write_picture_grid`.

    Args:
        rows: at least one, all pictures of one side.
        scale: drawn pixels a picture pixel; 0 makes a panel at least 96 pixels wide.
        note: a line under the legend.

    Returns:
        An RGB picture and where its panels are.

    Raises:
        ValueError: no rows, or a negative scale.
        ShapeError: tensors of a row do not fit, or rows differ in side.
    """
    if not rows:
        raise ValueError("A picture grid needs at least one picture.")
    if scale < 0:
        raise ValueError(f"The scale of a picture grid must be a whole number from 0, not {scale}.")
    side = rows[0].original.shape[-1]
    scale = scale or -(-SMALLEST_PANEL // side)
    panel_side = side * scale
    panels = [panel for row in rows for panel in row_panels(row, side, scale)]
    font = ImageFont.load_default(FONT_SIZE)
    gap = max([MARGIN] + [text_width(font, title) + MARGIN - panel_side for title in TITLES])
    panels_CSS = make_grid(torch.stack(panels), nrow=len(TITLES), padding=gap, pad_value=255)
    block = Image.fromarray(panels_CSS.permute(1, 2, 0).numpy())

    captions = [[printable(line) for line in row.caption] for row in rows]
    footer = [LEGEND] + ([printable(note, LONGEST_NOTE)] if note else [])
    widest = max([0] + [text_width(font, line) + gap for lines in captions for line in lines])
    widest_footer = max(text_width(font, line) for line in footer) + 2 * gap
    width = max(block.width + widest, widest_footer)
    height = LINE_HEIGHT * (1 + len(footer)) + block.height + MARGIN
    geometry = grid_geometry(len(rows), scale, panel_side, gap, (width, height))

    canvas = Image.new("RGB", (width, height), PAPER)
    canvas.paste(block, (0, LINE_HEIGHT))
    draw = ImageDraw.Draw(canvas)
    for (left, top, _, _), title in zip(geometry.boxes[0], TITLES, strict=True):
        draw.text((left, top - gap // 2 - FONT_SIZE), title, INK, font=font)
    # More lines than a row is high would run into the next row's caption: they are left out.
    n_lines = max(1, (panel_side + gap) // LINE_HEIGHT)
    for boxes, lines in zip(geometry.boxes, captions, strict=True):
        draw_lines(draw, font, (block.width, boxes[0][1]), lines[:n_lines])
    draw_lines(draw, font, (gap, LINE_HEIGHT + block.height), footer)
    return canvas, geometry


def draw_lines(
    draw: ImageDraw.ImageDraw, font: Font, corner: tuple[int, int], lines: Sequence[str]
) -> None:
    """Write lines below each other from a left upper corner."""
    for place, line in enumerate(lines):
        draw.text((corner[0], corner[1] + place * LINE_HEIGHT), line, INK, font=font)


def grid_geometry(
    n_rows: int, scale: int, panel_side: int, gap: int, size: tuple[int, int]
) -> GridGeometry:
    """Boxes of the panels as `make_grid` lays them out, below one line of titles."""
    step = panel_side + gap
    boxes = tuple(
        tuple(
            (left, top, left + panel_side, top + panel_side)
            for left in range(gap, gap + len(TITLES) * step, step)
        )
        for top in range(LINE_HEIGHT + gap, LINE_HEIGHT + gap + n_rows * step, step)
    )
    return GridGeometry(scale, panel_side, size, boxes)


def row_panels(row: PictureRow, side: int, scale: int) -> list[Tensor]:
    """Original, masked and restored panel of one row.

    Args:
        row: the picture.
        side: side that all pictures of the grid have, in picture pixels.
        scale: drawn pixels a picture pixel.

    Returns:
        Three (3, S * scale, S * scale) uint8 tensors on the CPU.

    Raises:
        ShapeError: the tensors do not fit each other, the side, or one or three channels.
    """
    shape = tuple(row.original.shape)
    if shape not in ((1, side, side), (3, side, side)) or row.predicted.shape != shape:
        raise ShapeError(
            f"A row of the grid needs an original and a prediction of shape (1 or 3, {side}, "
            f"{side}), not {shape} and {tuple(row.predicted.shape)}."
        )
    if row.hidden.numel() != side**2 or row.hidden.dtype != torch.bool:
        raise ShapeError(
            f"The hidden pixels of a row must be bool of shape ({side}, {side}), not "
            f"{row.hidden.dtype} of shape {tuple(row.hidden.shape)}."
        )
    hidden_1SS = enlarged(row.hidden.detach().cpu().reshape(1, side, side), scale)
    original_CSS = enlarged(drawn(row.original), scale)
    predicted_CSS = enlarged(drawn(row.predicted), scale)
    places = torch.arange(side * scale)
    stripes_SS = (places[:, None] + places) // HATCH_WIDTH % len(HATCH_GREYS)
    hatch_SS = torch.tensor(HATCH_GREYS, dtype=torch.uint8)[stripes_SS]
    return [
        original_CSS,
        torch.where(hidden_1SS, hatch_SS, original_CSS),
        torch.where(hidden_1SS, predicted_CSS, original_CSS),
    ]


def drawn(picture_CSS: Tensor) -> Tensor:
    """Values in [0, 1] as RGB bytes, rounded to the nearest; values beyond are clipped."""
    levels_CSS = picture_CSS.detach().cpu().float().nan_to_num(nan=0.0).clamp(0, 1) * 255
    return levels_CSS.round().to(torch.uint8).expand(3, -1, -1)


def enlarged(picture_CSS: Tensor, scale: int) -> Tensor:
    """Each pixel repeated `scale` times each way."""
    return picture_CSS.repeat_interleave(scale, dim=1).repeat_interleave(scale, dim=2)


def text_width(font: Font, text: str) -> int:
    """Drawn pixels that a line takes."""
    return int(font.getlength(text)) + 1


def printable(text: str, longest: int = LONGEST_CAPTION) -> str:
    """One line that the built-in font can draw: other characters become ?, the middle is cut."""
    line = "".join(letter if letter.isprintable() else "?" for letter in text)
    line = line.encode("latin-1", "replace").decode("latin-1")
    if len(line) <= longest:
        return line
    kept = longest - 3
    return line[: kept // 2] + "..." + line[len(line) - (kept - kept // 2) :]
