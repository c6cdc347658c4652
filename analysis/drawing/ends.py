"""Write names at the right end of lines, pushed apart, so that no legend is needed."""

import numpy as np
from matplotlib.axes import Axes

from .draw import root
from .style import GREY, small

LINE = 1.35  # letter sizes between two names; some spare, because the panel may become a little lower
ASIDE = 9.0  # points from the axes to a name


def write(ax: Axes, names: list[str], heights: list[float], colours: list[str]) -> None:
    """Write names beside the right edge of the axes, a thin line from each to its height (a y of the data).

    The axes must already have their final limits, and their final size within a few points.
    """
    order = np.argsort(heights, kind="stable")
    box, dpi = ax.get_window_extent(), root(ax).dpi
    low, high = ax.get_ylim()
    unit = (high - low) / (72 * box.height / dpi)  # units of the data in one point of the page
    places = apart([heights[i] for i in order], LINE * small() * unit, low, high)
    for i, y in zip(order, places, strict=True):
        ax.annotate(
            names[i], (1, heights[i]), xycoords=("axes fraction", "data"),
            xytext=(1 + ASIDE / (72 * box.width / dpi), y), textcoords=("axes fraction", "data"), va="center",
            fontsize=small(), color=colours[i], annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.4, "shrinkA": 0, "shrinkB": 0},
        )  # fmt: skip


def apart(wanted: list[float], gap: float, low: float, high: float) -> list[float]:
    """Return rising places as near to the rising `wanted` places as a gap between neighbours allows.

    Neighbours that are too near form a group around their mean; places stay in [low, high] if there is room.
    """
    groups: list[list[float]] = []
    for place in wanted:
        groups.append([place])
        while len(groups) > 1 and _first(groups[-1], gap) - _first(groups[-2], gap) < gap * len(groups[-2]):
            groups[-2:] = [groups[-2] + groups[-1]]
    places = [_first(group, gap) + i * gap for group in groups for i in range(len(group))]
    over = max(0.0, places[-1] - high) if places else 0.0
    return [max(place - over, low + i * gap) if over else place for i, place in enumerate(places)]


def _first(group: list[float], gap: float) -> float:
    return float(np.mean(group)) - gap * (len(group) - 1) / 2
