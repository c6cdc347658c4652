"""Fix the look of every picture: sizes for paper or screen, a colour for a family, a marker for a mixer."""

from dataclasses import dataclass
from typing import Any
from zlib import crc32

import matplotlib
import pandas as pd
import seaborn
from matplotlib.colors import to_hex, to_rgb
from matplotlib.markers import MarkerStyle

# The hues of Okabe and Ito, each with a different lightness: distinct for any colour vision and in grey.
FAMILY_COLOURS = {
    "attention": "#0072B2",
    "linear": "#9C3A00",
    "ssm": "#009E73",
    "convolution": "#DD9800",
    "sparse": "#6A2560",
}
OTHER_COLOURS = ("#56B4E9", "#D0699B", "#555555")
MARKERS = ("o", "s", "^", "D", "v", "p", "d", "h", "P", "8", "H", "<", ">")
# A mixer has the same marker in every picture; mixers of its family often drawn beside it have others.
MARKER_OF = {
    mixer: marker
    for marker, mixers in {
        "o": "attention all_poly gla base_conv bmojo",
        "s": "sliding_window cosformer gated_deltanet retnet rwkv4 long_conv landmark",
        "^": "based bmojo_f s4d moba",
        "D": "nystromformer deltanet hedgehog h3 se_attn_no_mem yoco",
        "v": "forgetting_attention rebased mamba bigbird",
        "p": "llama_xl linear_identity gated_deltaproduct rwkv7 mamba2 base_conv_long scatterbrain",
        "d": "mla linear_relu mesanet mlstm rg_lru hyena se_attn_lm",
        "h": "path_attention linear_square kimi_delta_attention mamba3 se_attn",
        "P": "shared_attention performer comba lightning_attention log_linear_mamba2 se_attn_random",
        "8": "gated_slot_attention snapkv",
        "H": "based_decay hgrn2 se_attn_capped",
        "<": "stickbreaking_attention linear_attention ttt_linear rwkv5 nsa",
        ">": "dpfp ttt_mlp rwkv6 s2_attn",
    }.items()
    for mixer in mixers.split()
}
STARS = tuple(MarkerStyle((corners, 1, 0)) for corners in (5, 4, 6, 8))  # stars for points of a user
FAMILY_MARKERS = {"attention": "o", "linear": "s", "ssm": "^", "convolution": "D", "sparse": "v"}
OTHER_MARKERS = ("P", "p", "d")
EVEN = {"o": 1.0, "s": 0.85, "D": 0.75, "d": 1.1, "8": 1.05}
HUES = (0.95, (0.42, 0.6))  # saturation, and alternating lightness, of series that are all of one family
INK, GREY, PALE = "#222222", "#777777", "#D8D8D8"
BACKGROUND = "#C4C4C4"  # colour of points that a panel is not about


@dataclass(frozen=True)
class Style:
    """Sizes of a page.  width, height: of the page without a legend, in inches, with one row of panels.

    The legend stands below the panels if the width is a column's and cannot grow, else at their right."""

    name: str
    width: float
    height: float
    font: float  # points
    small: float
    marker: float  # width of a marker in points
    below: bool
    captioned: bool  # a paper has captions of its own
    letters: int  # letters in a line of the legend
    across: int  # most panels side by side


SCREEN = Style(
    "screen", 5.6, 4.2, font=8.5, small=7.2, marker=5.8, below=False, captioned=True, letters=38, across=4
)
PAPER = Style(
    "paper", 6.9, 2.9, font=8, small=7, marker=5.2, below=True, captioned=False, letters=32, across=3
)
COLUMN = Style(
    "column", 3.3, 2.3, font=7.5, small=7, marker=4.6, below=True, captioned=False, letters=23, across=2
)
STYLES = {style.name: style for style in (SCREEN, PAPER, COLUMN)}


def rc(style: Style) -> Any:
    """Return matplotlib's settings for a style; use `matplotlib.rc_context` while drawing and saving."""
    return {
        "font.family": "DejaVu Sans",
        "font.size": style.font,
        "text.parse_math": False,  # labels are data: a $ in one is a $
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": GREY,
        "axes.linewidth": 0.8 if style is SCREEN else 0.6,
        "axes.labelcolor": INK,
        "axes.labelsize": style.font,
        "axes.titlesize": style.font,
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "xtick.labelsize": style.small,
        "ytick.labelsize": style.small,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "grid.color": "#ECECEC",
        "grid.linewidth": 0.8,
        "axes.axisbelow": True,
        "legend.frameon": False,
        "legend.fontsize": style.small,
        "lines.markersize": style.marker,
        "pdf.fonttype": 42,
        "savefig.dpi": 200 if style is SCREEN else 300,
    }


CALM: Any = rc(SCREEN)


def small() -> float:
    """Return the size of small text in the current style, in points."""
    return float(matplotlib.rcParams["legend.fontsize"])


def marker_area() -> float:
    """Return the square points of a marker of area 1 in the current style."""
    return float(matplotlib.rcParams["lines.markersize"]) ** 2


@dataclass(frozen=True)
class Look:
    colour: str
    marker: str

    @property
    def area(self) -> float:
        """Return the area at which this marker looks as large as a circle of area 1."""
        return EVEN.get(self.marker, 1.15)


def crowded(points: pd.DataFrame) -> bool:
    """Return whether there are more series than markers: each then gets a panel, not a legend entry."""
    return len(set(points["series"])) > len(MARKERS)


def looks(points: pd.DataFrame) -> dict[str, Look]:
    """Return series -> Look, the same for every panel that is drawn from the same points.

    A family has a colour and a mixer a marker, in all pictures.  If all points are of one family, each series
    has a hue instead; further series of a mixer have markers that are free in its family.  In a crowd each
    series has the look of its family."""
    series = points.drop_duplicates("series").sort_values(["family", "mixer", "series"], key=by_family)
    names, families = series["series"].tolist(), series["family"].tolist()
    colours = family_colours(points)
    if crowded(points):
        markers = family_markers(points)
        return {name: Look(colours[of], markers[of]) for name, of in zip(names, families, strict=True)}
    hues = _hues(len(names)) if len(names) > 1 and one_family(points) else [colours[of] for of in families]
    markers = _markers(series)
    return {name: Look(hue, markers[name]) for name, hue in zip(names, hues, strict=True)}


def one_family(points: pd.DataFrame) -> bool:
    return len(set(points["family"])) == 1


def mixed(colour: str, strength: float) -> str:
    """Return the colour mixed with white: pure at strength 1, white at 0."""
    red, green, blue = (1 - strength * (1 - channel) for channel in to_rgb(colour))
    return to_hex((red, green, blue))


def _hues(count: int) -> list[str]:
    """Return `count` colours around the colour circle, alternately dark and light."""
    saturation, lights = HUES
    wheels = [seaborn.husl_palette(count, s=saturation, l=light).as_hex() for light in lights]
    return [wheels[i % len(wheels)][i] for i in range(count)]


def _markers(series: pd.DataFrame) -> dict[str, str]:
    """Return series -> marker: a mixer's first series gets its own, known mixers first; others a free one."""
    rows = series.to_dict("records")
    second = series.duplicated("mixer").tolist()
    order = sorted(range(len(rows)), key=lambda i: (second[i], rows[i]["mixer"] not in MARKER_OF))
    markers: dict[str, str] = {}
    taken: dict[str, set[str]] = {}
    for row in (rows[i] for i in order):
        of_family = taken.setdefault(row["family"], set())
        mixer = str(row["mixer"])
        turn = MARKERS.index(MARKER_OF.get(mixer) or MARKERS[crc32(mixer.encode()) % len(MARKERS)])
        free = [m for m in (*MARKERS[turn:], *MARKERS[:turn]) if m not in of_family]
        markers[row["series"]] = free[0]
        of_family.add(free[0])
    return markers


def family_colours(points: pd.DataFrame) -> dict[str, str]:
    """Return family -> colour, known families first and in their order."""
    return FAMILY_COLOURS | _others(points, OTHER_COLOURS)


def family_markers(points: pd.DataFrame) -> dict[str, str]:
    """Return family -> marker, for pictures where a mark shows only the family."""
    return FAMILY_MARKERS | _others(points, OTHER_MARKERS)


def _others(points: pd.DataFrame, choice: tuple[str, ...]) -> dict[str, str]:
    others = [f for f in sorted(points["family"].unique()) if f not in FAMILY_COLOURS]
    return {family: choice[i % len(choice)] for i, family in enumerate(others)}


def by_family(column: pd.Series) -> pd.Series:
    """Return a sort key: families in the order of FAMILY_COLOURS, other columns unchanged."""
    if column.name != "family":
        return column
    order = list(FAMILY_COLOURS)
    keys = [f"{order.index(f) if f in order else len(order)} {f}" for f in column.astype(str)]
    return pd.Series(keys, index=column.index)
