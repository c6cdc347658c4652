"""Lay out a page (panels in a grid, a legend at their right or below, a caption) and save it as files."""

import io
import math
import textwrap
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ..output import write
from .style import GREY, SCREEN, Style, rc, small

PAD = 0.08  # inches between the parts of a page
UNDATED: dict[str, dict[str, Any]] = {  # metadata without date or version
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
}
Handles = list[Line2D | Patch]


def new(width: float, height: float) -> Figure:
    """Return an empty page of this size in inches, whose panels will share the room."""
    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine())


def grid(panels: int, most: int = 4) -> tuple[int, int]:
    """Return rows and columns, at most `most` columns, near a square and with few empty places."""
    wanted = min(most, math.ceil(math.sqrt(panels)))
    columns = min(range(wanted, most + 1), key=lambda count: (-panels % count, count))
    return math.ceil(panels / columns), columns


def multiples(panels: int, style: Style, most: int) -> tuple[Figure, np.ndarray, int]:
    """Return a page of panels that share their axes, at most `most` side by side; the panels; the columns."""
    lines, columns = grid(panels, most)
    width = style.width * (1.0 if style.below else {1: 1.0, 2: 1.4}.get(columns, 2.0))
    figure = new(width, 0.6 + lines * min(0.72 * style.height, 0.8 * width / columns))
    axes = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).ravel()
    clear(axes, panels, columns)
    return figure, axes[:panels], columns


def clear(axes: np.ndarray, used: int, columns: int) -> None:
    """Remove the unused places; the panels above them get numbers on their x axes."""
    for ax in axes[used:]:
        ax.remove()
    for ax in axes[max(0, used - columns) : used]:
        ax.tick_params(labelbottom=True)


def finish(
    figure: Figure,
    handles: Handles,
    caption: str,
    style: Style = SCREEN,
    *,
    x_label: str = "",
    y_label: str = "",
    below: bool | None = None,
    bold: dict[str, str] | None = None,
) -> None:
    """Make room for the legend and the caption beside the panels, and fix the layout.

    The page grows by the room that they need; if the legend stands below, the page keeps its width.
    x_label, y_label: common to all panels.
    below: whether the legend stands below; None: as in the style.  bold: legend text -> its colour.
    """
    width, height = figure.get_size_inches()
    under = style.below if below is None else below
    legend = _legend(figure, handles, width if under else math.inf, bold or {})
    box = legend.get_window_extent()
    across, tall = (box.width / figure.dpi + PAD, box.height / figure.dpi + PAD) if handles else (0.0, 0.0)
    wide = width if under else width + across
    lines = _lines(figure, caption, wide - 2 * PAD) if style.captioned else []
    strip = len(lines) * small() * 1.5 / 72 + PAD if lines else 0.0
    high = strip + (height + tall if under else max(height, tall))
    figure.set_size_inches(wide, high)
    figure.text(PAD / wide, PAD / 2 / high, "\n".join(lines), fontsize=small(), color=GREY, va="bottom")
    bottom = strip + (tall if under else 0.0)
    anchor = (0.0, strip / high) if under else (width / wide, 1.0)
    legend.set_loc("lower left" if under else "upper left")
    legend.set_bbox_to_anchor(anchor, figure.transFigure)
    line = style.font * 1.5 / 72
    below_all = textwrap.wrap(x_label, int(width * 120 / style.font))
    floor, wall = bottom + line * len(below_all), line * bool(y_label)
    if x_label:
        figure.supxlabel(
            "\n".join(below_all), x=(wall + width) / 2 / wide, y=bottom / high, fontsize=style.font
        )
    if y_label:
        figure.supylabel(y_label, x=PAD / 2 / wide, y=(1 + floor / high) / 2, fontsize=style.font)
    rect = (wall / wide, floor / high, (width - wall) / wide, 1 - floor / high)
    figure.set_layout_engine(ConstrainedLayoutEngine(rect=rect))
    figure.draw_without_rendering()


def _lines(figure: Figure, text: str, inches: float) -> list[str]:
    """Return the text in lines of at most this many inches, in small type."""
    letters = int(inches * 122 / small())
    while True:
        lines = textwrap.wrap(text, letters)
        probe = figure.text(0, 0, "\n".join(lines), fontsize=small())
        width = probe.get_window_extent().width / figure.dpi
        probe.remove()
        if width <= inches or letters <= 8:
            return lines
        letters = min(letters - 1, int(letters * inches / width))


def save(figure: Figure, stem: Path, style: Style = SCREEN, *, print_too: bool = True) -> list[Path]:
    """Write stem.png, and stem.pdf for print, each atomically; return the paths."""
    forms = ("png", "pdf") if print_too else ("png",)
    return [write(stem.with_name(f"{stem.name}.{form}"), content(figure, style, form)) for form in forms]


def content(figure: Figure, style: Style = SCREEN, form: str = "png") -> bytes:
    """Return the figure as PNG, or as PDF with embedded fonts; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    with matplotlib.rc_context(rc(style)):
        figure.savefig(buffer, format=form, metadata=UNDATED[form])
    return buffer.getvalue()


def _legend(figure: Figure, handles: Handles, width: float, bold: dict[str, str]) -> Legend:
    """Draw the legend in as many columns as fit into `width` inches; in one column if that is infinite."""
    for columns in range(1 if width == math.inf else 4, 0, -1):
        legend = figure.legend(
            handles=handles, loc="upper left", ncols=columns, handlelength=1.6, labelspacing=0.42,
            borderaxespad=0.4, columnspacing=1.2,
        )  # fmt: skip
        for text in legend.get_texts():
            if text.get_text() in bold:
                text.set_fontweight("bold")
                text.set_color(bold[text.get_text()])
        if columns == 1 or legend.get_window_extent().width <= width * figure.dpi:
            return legend
        legend.remove()
    raise AssertionError("one column is returned whatever its width")
