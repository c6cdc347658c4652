"""How every picture looks: a colour for a family, a marker for a series, ticks at powers of two."""

from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from zoo.state import BYTES_PER_SCALAR

# After Okabe and Ito: told apart with any colour vision; where grey takes colour away, markers remain.
FAMILY_COLOURS = {
    "attention": "#0072B2",
    "linear": "#D55E00",
    "ssm": "#009E73",
    "convolution": "#C98A00",
    "sparse": "#AA4499",
}
OTHER_COLOURS = ("#56B4E9", "#7A5C3A", "#555555")
MARKERS = ("o", "s", "^", "D", "v", "p", "d", "h", "P", "8", "H", "*", "<", ">")
EVEN = {"o": 1.0, "s": 0.85, "D": 0.75, "*": 1.9, "d": 1.1, "8": 1.05}
INK, GREY, PALE = "#222222", "#777777", "#D8D8D8"
CALM: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.titlesize": 8.5,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#ECECEC",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "savefig.dpi": 200,
}


@dataclass(frozen=True)
class Look:
    colour: str
    marker: str

    @property
    def area(self) -> float:
        """What makes this marker weigh as much to the eye as a circle of area 1."""
        return EVEN.get(self.marker, 1.15)


def looks(points: pd.DataFrame) -> dict[str, Look]:
    """series -> Look; the same for every panel that is drawn from the same points."""
    colours = family_colours(points)
    series = points.drop_duplicates("series").sort_values(["family", "mixer", "series"], key=by_family)
    return {
        name: Look(colours[family], MARKERS[i % len(MARKERS)])
        for i, (name, family) in enumerate(zip(series["series"], series["family"], strict=True))
    }


def family_colours(points: pd.DataFrame) -> dict[str, str]:
    """family -> colour, known families first and in their order."""
    others = [f for f in sorted(points["family"].unique()) if f not in FAMILY_COLOURS]
    return FAMILY_COLOURS | {f: OTHER_COLOURS[i % len(OTHER_COLOURS)] for i, f in enumerate(others)}


def by_family(column: pd.Series) -> pd.Series:
    """A sort key: families in the order of FAMILY_COLOURS, other columns as they are."""
    if column.name != "family":
        return column
    order = list(FAMILY_COLOURS)
    keys = [f"{order.index(f) if f in order else len(order)} {f}" for f in column.astype(str)]
    return pd.Series(keys, index=column.index)


def state_axis(ax: Axes, low: float, high: float) -> None:
    """A log2 axis in scalars per sequence, with room on both sides of what it shows."""
    ax.set_xscale("log", base=2)
    ax.set_xlim(low / 1.45, high * 1.45)
    _powers_of_two(ax, *ax.get_xlim(), lambda x, _: f"{x:,.0f}")


def bytes_axis(ax: Axes) -> None:
    """On top of a state axis, the same in fp32 bytes."""
    low, high = (x * BYTES_PER_SCALAR["float32"] for x in ax.get_xlim())
    top = ax.secondary_xaxis("top", functions=(_to_bytes, _from_bytes))
    top.set_xscale("log", base=2)
    _powers_of_two(top, low, high, lambda x, _: in_bytes(x))
    top.tick_params(labelsize=7, colors=GREY)
    top.set_xlabel("the same in bytes, kept in fp32", fontsize=7, color=GREY)
    top.spines["top"].set_visible(False)


def in_bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:g} {unit}"
        count /= 1024
    return f"{count:g} TiB"


def _to_bytes(scalars: Any) -> Any:
    return scalars * BYTES_PER_SCALAR["float32"]


def _from_bytes(count: Any) -> Any:
    return count / BYTES_PER_SCALAR["float32"]


def _powers_of_two(ax: Any, low: float, high: float, text: Any) -> None:
    powers = [n for n in range(0, 64) if low <= 2**n <= high]
    stride = 1 + len(powers) // 9
    ax.xaxis.set_major_locator(FixedLocator([2.0**n for n in powers if n % stride == 0]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(text))
