"""Accuracy by load and distance (too much to hold, or too long ago): a panel a mixer and setting."""

from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from ..drawing import page
from ..drawing.style import INK, PALE, Style, by_family, looks, small
from ..records import cells
from ..statistics import load_distance, scored
from ..statistics.capacity import RECALL
from ..statistics.points import in_words
from .gallery import Picture, Study

NAME = "load_distance"
MOST = 16  # panels; if there are more settings, each series shows the one of largest capacity
SURE = 2.0  # standard errors above blind; an accuracy with fewer counts as no better than blind
COLOURS, TRAINED = "cividis", "#FF5050"
ABOUT = ["point", "mixer", "family", "series", "d_model", "knobs", "state_resident"]


def figure(study: Study, style: Style) -> Picture:
    """Draw the answers to evaluation=load_distance."""
    rows, limits = measured(study)
    shown = _largest(limits) if len(limits) > MOST else limits
    left = " Each mixer is shown at its setting of largest capacity." if len(shown) < len(limits) else ""
    sentences = [
        "Accuracy on rows of n pairs, then filler, then all n queries. White line: 90 % accuracy. Dotted: "
        "the most pairs and the longest rows of training. White dots: no better than blind, that is, than on "
        "rows whose keys were replaced, where a model can only guess among the values. Grey: impossible "
        "rows. Holds: the number of pairs at which accuracy falls to 90 % without filler. Half-life: the "
        "distance in tokens at which the fewest pairs have lost half of their lead over blind. Brackets: 95 "
        f"%, bootstrap over seeds and rows (of three seeds about 80 %).{left}"
    ]
    return Picture(_draw(rows, shown, sentences[0], style), rows, sentences, {"limits": limits})


def measured(study: Study) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the surface and the limits (`analysis.statistics.load_distance`) of every point, sorted."""
    answers = scored.answered(study.evaluations(NAME), study.table, NAME, load_distance.GRID)
    about = cells.identify(study.table).drop_duplicates("point")[ABOUT]
    limits = load_distance.limits(answers).merge(about, on="point")
    limits = limits.sort_values(["family", "mixer", "series", "state_resident"], key=by_family)
    return load_distance.surface(answers).merge(about, on="point"), limits


def _largest(limits: pd.DataFrame) -> pd.DataFrame:
    """Keep the point of each series with the largest capacity."""
    best = limits.sort_values("capacity").drop_duplicates("series", keep="last")["point"]
    return limits.loc[limits["point"].isin(best)]


def _draw(rows: pd.DataFrame, limits: pd.DataFrame, caption: str, style: Style) -> Figure:
    figure, axes, _ = page.multiples(len(limits), style, most=style.across)
    style_of = looks(limits)
    one_width = len(set(limits["d_model"])) == 1
    loads, distances = sorted(set(rows["num_kv_pairs"])), sorted(set(rows["distance"]))
    for ax, row in zip(axes, limits.to_dict("records"), strict=True):
        name = f"{row['series']} {row['knobs']}".strip() if one_width else in_words(row)
        of_point = rows.loc[rows["point"] == row["point"]]
        _panel(ax, of_point, loads, distances)
        lines = [name, f"{row['state_resident']:,} scalars of state", *in_numbers(row, of_point)]
        ax.set_title("\n".join(lines), fontsize=small(), color=style_of[row["series"]].colour)
    scale = ScalarMappable(Normalize(0, 100), matplotlib.colormaps[COLOURS])
    figure.colorbar(scale, ax=list(axes), label="Accuracy (per cent)", aspect=30, pad=0.02)
    x_label = "Tokens from a key to its query (mean over a row)"
    page.finish(figure, [], caption, style, x_label=x_label, y_label="Key-value pairs")
    return figure


def in_numbers(limits: dict, answers: pd.DataFrame) -> list[str]:
    """Return ["holds 8.1 pairs [7.2, 9]", "half-life > 512 tokens"] for a row of `limits` and its answers."""
    loads, distances = (sorted(set(answers[name])) for name in load_distance.GRID)
    half_life = _number(limits, "half_life", "tokens", distances)
    return [
        f"holds {_number(limits, 'capacity', 'pairs', loads)}",
        f"half-life {half_life}" if half_life else "recalls nothing at the shortest distance",
    ]


def _number(row: dict, name: str, unit: str, grid: list[int]) -> str:
    """Return a limit in words, with its interval if that has a width; "": there is no such number."""
    ends = [row[key] for key in (name, f"{name}_low", f"{name}_high")]
    if np.isnan(ends).any():
        return ""
    words = [f"< {grid[0]}" if x == 0 else f"> {grid[-1]}" if np.isinf(x) else f"{x:.3g}" for x in ends]
    value, low, high = words
    return f"{value} {unit}" + (f" [{low}, {high}]" if len(set(words)) > 1 else "")


def _panel(ax: Axes, rows: pd.DataFrame, loads: list[int], distances: list[int]) -> None:
    wide = {
        name: rows.pivot(index="num_kv_pairs", columns="distance", values=name)
        .reindex(index=loads, columns=distances)
        .to_numpy(float)
        for name in [*load_distance.VALUES, "trained"]
    }
    ax.set_facecolor(PALE)
    ax.imshow(100 * wide["accuracy"], cmap=COLOURS, vmin=0, vmax=100, origin="lower", aspect="auto")
    known = ~np.isnan(wide["accuracy"])
    _boundary(ax, wide["accuracy"] >= RECALL, known, color="white", linewidth=1.8)
    _boundary(ax, wide["trained"] == 1, known, color=TRAINED, linewidth=1.4, linestyle=":")
    # accuracies that a guess reaches too
    blind = np.where(np.isnan(wide["blind"]), wide["guess"], wide["blind"])
    error = np.hypot(wide["error"], np.nan_to_num(wide["blind_error"]))
    y, x = np.nonzero(wide["accuracy"] <= blind + SURE * error)
    ax.plot(x, y, ".", color="white", markeredgecolor=INK, markersize=6, markeredgewidth=0.5)
    ax.set_xticks(range(len(distances)), [f"{distance}" for distance in distances], rotation=90)
    ax.set_yticks(range(len(loads)), [f"{load}" for load in loads])
    ax.grid(visible=False)
    ax.tick_params(length=0)


def _boundary(ax: Axes, inside: np.ndarray, known: np.ndarray, **look: Any) -> None:
    """Draw a line between neighbouring places, one of which is inside and the other outside."""
    for lines, within, there in ((ax.hlines, inside, known), (ax.vlines, inside.T, known.T)):
        both, differ = there[:-1] & there[1:], within[:-1] != within[1:]
        for across, along in np.argwhere(both & differ):
            lines(across + 0.5, along - 0.5, along + 0.5, **look)
