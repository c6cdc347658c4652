"""Too much to hold, or too long ago: accuracy by load and distance, a panel a mixer and setting."""

import textwrap

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from analysis.drawing import page
from analysis.drawing.style import INK, PALE, Style, by_family, looks, small
from analysis.figures.gallery import Picture, Study
from analysis.records import cells
from analysis.statistics import learning_rate, load_distance
from analysis.statistics.capacity import RECALL
from analysis.statistics.points import in_words

MOST = 16  # panels; of more settings, each series shows the one of largest capacity
SURE = 2.0  # standard errors over the blind: fewer, and it is no better than they are
COLOURS = "cividis"
ABOUT = ["point", "mixer", "family", "series", "d_model", "knobs", "state_resident"]


def figure(study: Study, style: Style) -> Picture:
    """Of the answers to evaluation=load_distance."""
    table = cells.identify(study.table)
    chosen = learning_rate.choose(table)
    found = load_distance.answered(study.evaluations("load_distance"), table, chosen)
    about = table.drop_duplicates("point")[ABOUT]
    limits = load_distance.limits(found).merge(about, on="point")
    rows = load_distance.surface(found).merge(about, on="point")
    limits = limits.sort_values(["family", "mixer", "series", "state_resident"], key=by_family)
    shown = _largest(limits) if len(limits) > MOST else limits
    left = " Of each mixer the setting of largest capacity." if len(shown) < len(limits) else ""
    says = [
        "Accuracy on rows of n pairs, filler, and then all n queries. White line: where it crosses 90 %. "
        "Dots: no better than the blind, who see other keys and can guess among the values alone. capacity: "
        "pairs held at 90 % when nothing stands between; half-life: distance at which the fewest pairs have "
        f"lost half of their lead over the blind; brackets: 95 %, seeds and rows drawn again.{left}"
    ]
    return Picture(_draw(rows, shown, says[0], style), rows, says, {"limits": limits})


def _largest(limits: pd.DataFrame) -> pd.DataFrame:
    """Of each series the point that holds most."""
    best = limits.sort_values("capacity").drop_duplicates("series", keep="last")["point"]
    return limits.loc[limits["point"].isin(best)]


def _draw(rows: pd.DataFrame, limits: pd.DataFrame, caption: str, style: Style) -> Figure:
    figure, axes, columns = page.multiples(len(limits), style, most=style.across)
    style_of = looks(limits)
    letters = int(0.8 * figure.get_figwidth() / columns * 122 / small())
    loads, distances = sorted(set(rows["num_kv_pairs"])), sorted(set(rows["distance"]))
    for ax, row in zip(axes, limits.to_dict("records"), strict=True):
        of_point = rows.loc[rows["point"] == row["point"]]
        _panel(ax, of_point, loads, distances)
        lines = textwrap.wrap(in_words(row), letters) + textwrap.wrap(in_numbers(row), letters)
        ax.set_title("\n".join(lines), fontsize=small(), color=style_of[row["series"]].colour)
    scale = ScalarMappable(Normalize(0, 100), matplotlib.colormaps[COLOURS])
    figure.colorbar(scale, ax=list(axes), label="Accuracy (per cent)", aspect=30, pad=0.02)
    x_label = "Tokens from a key to its query (mean over a row)"
    page.finish(figure, [], caption, style, x_label=x_label, y_label="Key-value pairs")
    return figure


def in_numbers(row: dict) -> str:
    """ "capacity 8.1 [7.2, 9], half-life > 512": of a row of `limits`."""
    names = {"capacity": "capacity", "half_life": "half-life"}
    return ", ".join(f"{word} {_number(row, name)}" for name, word in names.items())


def _number(row: dict, name: str) -> str:
    value, low, high = (row[key] for key in (name, f"{name}_low", f"{name}_high"))
    if np.isnan(value):
        return "-"
    outside = {0.0: "below", np.inf: "beyond"}
    if value in outside:
        return f"{outside[value]} the grid"
    return f"{value:.3g} [{', '.join('∞' if np.isinf(end) else f'{end:.3g}' for end in (low, high))}]"


def _panel(ax: Axes, rows: pd.DataFrame, loads: list[int], distances: list[int]) -> None:
    wide = {
        name: rows.pivot(index="num_kv_pairs", columns="distance", values=name)
        .reindex(index=loads, columns=distances)
        .to_numpy(float)
        for name in load_distance.VALUES
    }
    ax.set_facecolor(PALE)
    ax.imshow(100 * wide["accuracy"], cmap=COLOURS, vmin=0, vmax=100, origin="lower", aspect="auto")
    _boundary(ax, wide["accuracy"])
    _guessed(ax, wide)
    ax.set_xticks(range(len(distances)), [f"{distance}" for distance in distances], rotation=90)
    ax.set_yticks(range(len(loads)), [f"{load}" for load in loads])
    ax.grid(visible=False)
    ax.tick_params(length=0)


def _boundary(ax: Axes, accuracy: np.ndarray) -> None:
    """Between neighbours of which one recalls and one does not."""
    for axis, lines in ((0, ax.hlines), (1, ax.vlines)):
        one, other = (np.take(accuracy, range(*ends), axis) for ends in _pairs(accuracy.shape[axis]))
        known = ~np.isnan(one) & ~np.isnan(other)
        for y, x in np.argwhere(known & ((one >= RECALL) != (other >= RECALL))):
            across, along = (y, x) if axis == 0 else (x, y)
            lines(across + 0.5, along - 0.5, along + 0.5, color="white", linewidth=1.6)


def _pairs(count: int) -> tuple[tuple[int, int], tuple[int, int]]:
    return (0, count - 1), (1, count)


def _guessed(ax: Axes, wide: dict[str, np.ndarray]) -> None:
    blind = np.where(np.isnan(wide["blind"]), wide["guess"], wide["blind"])
    error = np.hypot(wide["error"], np.nan_to_num(wide["blind_error"]))
    y, x = np.nonzero(wide["accuracy"] <= blind + SURE * error)
    ax.plot(x, y, ".", color="white", markeredgecolor=INK, markersize=6, markeredgewidth=0.5)
