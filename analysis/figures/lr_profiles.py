"""Validation accuracy against the learning rate: a panel a mixer, the chosen rate ringed, a dot a seed."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation

from ..drawing.by_series import Axis, Marks, draw
from ..drawing.draw import ARROW, DIVERGED_AT, SIDES, root
from ..drawing.figure import span
from ..drawing.page import Handles
from ..drawing.style import INK, Style, marker_area
from ..records import cells
from ..statistics import chance, learning_rate
from ..statistics.seeds import interval, written
from .gallery import Picture, Study

AXIS = Axis("lr", "Learning rate", base=10, text="{:.2g}".format)
EDGE = {"low": "<", "high": ">"}
BOTTOM = -0.09  # lower end of the accuracy axis, with room for crosses


def figure(study: Study, style: Style) -> Picture:
    """Draw one load.  ValueError: every point has only one learning rate, and so no profile."""
    table = cells.identify(study.table)
    chosen = learning_rate.choose(table)
    if all(chosen["single_lr"]):
        raise ValueError("Every point has one learning rate: there is no profile. Sweep several lr=...")
    seeds = cells.seed_scores(table, "valid", cells.slices(table, "valid"))
    rows = chance.with_chance(_profiles(table, seeds, chosen), table, cells.slices(table, "valid"))
    flagged = sorted(set(rows.loc[rows["chosen"] & (rows["lr_edge"] != ""), "series"]))
    sentences = [
        f"Task {rows['task'].iloc[0]}: mean over validation slices and {span(rows['seeds'].tolist())} seeds "
        f"(dots; bars: {' or '.join(sorted(set(rows['interval'])))}). Ringed: the learning rate that is "
        "reported. A diverged seed counts as 0 (a cross). Darker: more state.",
        f"The best is at an edge of its grid (of three rates or more) for: {', '.join(flagged) or 'none'}.",
    ]
    good = learning_rate.good_range(table).merge(_names(table), on="point").drop(columns="point")
    handles, marks = _handles(rows), _marks(seeds)
    picture = draw(
        rows, AXIS, "Validation accuracy", sentences[0], style, handles=handles, marks=marks, bottom=BOTTOM
    )
    return Picture(picture, rows, sentences, {"good_range": good})


def _profiles(table: pd.DataFrame, seeds: pd.DataFrame, chosen: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each point and learning rate."""
    rows = []
    for _, group in seeds.groupby(["point", "lr"]):
        low, high, how = interval(group["accuracy"].to_numpy(float))
        where = {name: group[name].tolist()[0] for name in ("point", "lr")}
        score = {"accuracy": group["accuracy"].mean(), "low": low, "high": high, "interval": how}
        score["seed_accuracies"] = written(group["accuracy"].to_numpy(float))
        score["run_ids"] = " ".join(group["run_id"])
        rows.append(where | score | {"seeds": len(group), "diverged": sum(group["diverged"])})
    best = {row["point"]: (row["lr"], row["lr_edge"]) for row in chosen.to_dict("records")}
    profiles = pd.DataFrame(rows).merge(_names(table), on="point")
    return profiles.assign(
        chosen=[lr == best[point][0] for point, lr in zip(profiles["point"], profiles["lr"], strict=True)],
        lr_edge=[best[point][1] for point in profiles["point"]],
    )


def _names(table: pd.DataFrame) -> pd.DataFrame:
    names = ["point", "mixer", "series", "family", "d_model", "knobs", "state_resident", "task"]
    names += ["causal", "exact_decode"]
    return table.drop_duplicates("point").reindex(columns=names)


def _marks(seeds: pd.DataFrame) -> Marks:
    def add(ax: Axes, series: pd.DataFrame, shade_of: dict[str, str]) -> None:
        """Draw a dot a seed, a cross for a diverged seed, and a ring and a flag for the chosen rate."""
        of = seeds.merge(series[["point", "lr", "unit"]], on=["point", "lr"])
        ok, lost = of.loc[~of["diverged"]], of.loc[of["diverged"]]
        colours = [[shade_of[unit] for unit in some["unit"]] for some in (ok, lost)]
        ax.scatter(ok["lr"], ok["accuracy"], s=4, color=colours[0], alpha=0.7, zorder=2.5)
        ax.scatter(lost["lr"], [DIVERGED_AT] * len(lost), s=14, marker="x", linewidth=1, color=colours[1])
        best = series.loc[series["chosen"]]
        ax.scatter(
            best["lr"], best["accuracy"], s=1.7 * marker_area(), zorder=4, facecolor="none", edgecolor=INK,
            linewidth=0.9,
        )  # fmt: skip
        for side, marker in EDGE.items():
            at = best.loc[best["lr_edge"] == side]
            shift = ScaledTranslation(SIDES[side] * (ARROW + 2) / 72, 0, root(ax).dpi_scale_trans)
            ax.scatter(
                at["lr"], at["accuracy"], s=14, marker=marker, color=INK, linewidth=0, zorder=5,
                transform=ax.transData + shift, clip_on=False,
            )  # fmt: skip

    return add


def _handles(rows: pd.DataFrame) -> Handles:
    marks: Handles = [_mark("o", 7, "chosen", markerfacecolor="none"), _mark(".", 4, "a seed")]
    if any(rows["chosen"] & (rows["lr_edge"] != "")):
        marks.append(_mark(">", 4, "at an edge of its grid"))
    if any(rows["diverged"]):
        marks.append(_mark("x", 4, "diverged"))
    return marks


def _mark(marker: str, size: float, label: str, markerfacecolor: str = INK) -> Line2D:
    return Line2D(
        [], [], color=INK, linestyle="none", marker=marker, markersize=size, markerfacecolor=markerfacecolor,
        label=label,
    )  # fmt: skip
