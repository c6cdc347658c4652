"""Recall at each slice of the test split: a row a mixer and setting, a column a slice, or a task of many."""

import re
import textwrap

import numpy as np
import pandas as pd
import seaborn
from matplotlib.figure import Figure

from ..drawing import page
from ..drawing.figure import caption
from ..drawing.style import Style, by_family, looks, small
from ..records import cells
from ..statistics import scored
from ..statistics.points import in_words
from ..statistics.seeds import APART, settled
from .gallery import Picture, Study
from .plane import by_kind

BETWEEN = " | "  # between a load and its slice
TESTS = re.compile(r"(^|, )(mean of \d+ slices: .*|[\w, ]+ = [^=]*)$")  # the slices, which columns show
SPACES = str.maketrans("=_", "  ")
ROOMY = 11  # columns whose slices can be written in letters of the usual size
MOST = 40  # rows; if there are more settings, each series shows only its best
COLUMNS = 30  # if there are more, each load shows only the mean of its slices
GUESS = {True: "chance, 1/n", False: "chance"}  # whether chance is a guess among the row's values


def figure(study: Study, style: Style) -> Picture:
    """Draw a row for each mixer and setting, with its cells of all loads.

    If there are several tasks, or if several loads have the same slice, each load has its own columns.
    """
    rows = _named(scored.alone(study.table))
    several = len({_head(load) for load in rows["load"]}) > 1
    rows["column"] = (rows["load"] + BETWEEN if several else "") + rows["slice"]
    many = several and len(set(rows["column"])) > COLUMNS
    shown = _of_loads(study.table) if many else rows
    units = set(rows["unit"])
    best = _best(rows) if len(units) > MOST else units
    shown = shown.loc[shown["unit"].isin(list(best))]
    sentences = [
        f"Accuracy in per cent{', the mean of the slices' if many else ' at each slice'} of the test split.",
        caption(rows, ranges=False),
        "Of each mixer the setting with the best mean." if best < units else "",
        "" if settled(shown).all() else f"Seeds differ by more than {APART} at a star.",
    ]
    text = " ".join(filter(None, sentences))
    return Picture(_draw(shown, study.table, text, style), rows.drop(columns="column"), [text], {})


def _named(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(unit=[in_words(row) for row in rows.to_dict("records")])


def _best(rows: pd.DataFrame) -> set[str]:
    """Return, for each series, the unit with the best mean."""
    means = rows.groupby(["series", "unit"], as_index=False).agg(mean=("accuracy", "mean"))
    return set(means.sort_values("mean").drop_duplicates("series", keep="last")["unit"])


def _of_loads(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each unit and load, whose column is named by its load alone."""
    rows = _named(scored.means(table)).assign(column=lambda rows: rows["load"])
    return rows.sort_values("task", key=lambda tasks: tasks.map(by_kind), kind="stable")


def _draw(rows: pd.DataFrame, table: pd.DataFrame, caption: str, style: Style) -> Figure:
    column_names = _column_names(rows, table)
    wide, texts, names = _table(rows, column_names, style.letters)
    heads = _heads(column_names)
    shown = [name for _, name in column_names.values()]
    words = rows["column"].equals(rows["load"])  # below tasks, and numbers below slices
    tall = max((head.count("\n") + 1 for head in heads), default=6 if words else 0)
    height = 0.9 + 0.13 * tall + sum(0.11 + 0.13 * (1 + name.count("\n")) for name in names)
    figure = page.new(style.width, height)
    ax = figure.subplots()
    seaborn.heatmap(
        100 * wide, ax=ax, xticklabels=True, yticklabels=True, vmin=0, vmax=100, cmap="cividis",
        annot=texts, fmt="", linewidths=0.8, annot_kws={"fontsize": small()},
        cbar_kws={"label": "Accuracy (per cent)", "aspect": 30, "pad": 0.02},
    )  # fmt: skip
    values = ["\n".join(part.partition("=")[2] for part in name.split(",")) for name in shown]
    ticks = [_head(name).removeprefix("task ") for name in shown] if words else values
    turn = {"rotation": 30, "ha": "right"} if words else {"rotation": 0, "ha": "center"}
    ax.set_xticklabels(ticks, fontsize=small() if heads or words or len(ticks) > ROOMY else None, **turn)
    ax.set_yticklabels(names, rotation=0)
    keys = "mean over slices" if words else _keys_in_words(list(column_names.values()))
    ax.set(xlabel=textwrap.fill(keys, int(100 * style.width / style.font)), ylabel="")
    ax.tick_params(length=0)
    ax.grid(visible=False)
    for head, (first, last) in heads.items():
        ax.text((first + last) / 2, -0.1, head, ha="center", va="bottom", fontsize=small())
        ax.axvline(last, color="white", linewidth=5)
    style_of, series = looks(rows), dict(zip(rows["unit"], rows["series"], strict=True))
    for label, unit in zip(ax.get_yticklabels(), wide.index, strict=True):
        if unit in series:
            label.set_color(style_of[series[unit]].colour)
    page.finish(figure, [], caption, style)
    return figure


def _column_names(rows: pd.DataFrame, table: pd.DataFrame) -> dict[str, tuple[str, str]]:
    """Return column -> (load, or "" for no head; slice, or load), in the order of loads and difficulty."""
    if rows["column"].equals(rows["load"]):
        return {load: ("", load) for load in dict.fromkeys(rows["load"])}
    names = {}
    for load in dict.fromkeys(rows["load"] if any(BETWEEN in name for name in rows["column"]) else [""]):
        of_load = rows.loc[rows["load"] == load, "column"] if load else rows["column"]
        for name in cells.slices(table, "test"):
            column = f"{load}{BETWEEN}{name}" if load else name
            if column in set(of_load):
                names[column] = (load, name)
    return names


def _heads(column_names: dict[str, tuple[str, str]]) -> dict[str, tuple[int, int]]:
    """Return, by the words above the columns of a load, where these columns begin and end."""
    loads = [load for load, _ in column_names.values()]
    spans = {load: (loads.index(load), loads.index(load) + loads.count(load)) for load in filter(None, loads)}
    return {
        textwrap.fill(_head(load), max(8, 5 * (last - first)), break_long_words=False): (first, last)
        for load, (first, last) in spans.items()
    }


def _head(load: str) -> str:
    """Return what sets a load apart from others, except its slices, in words: "task cum parity"."""
    return TESTS.sub("", load).translate(SPACES)


def _keys_in_words(column_names: list[tuple[str, str]]) -> str:
    """Return "slice: seq_len above num_kv_pairs", or the keys of each load if they differ."""
    loads_of: dict[str, dict[str, None]] = {}
    for load, name in column_names:
        keys = " above ".join(part.partition("=")[0] for part in name.split(","))
        loads_of.setdefault(keys, {})[_head(load).removeprefix("task ")] = None
    if len(loads_of) == 1:
        return f"slice: {next(iter(loads_of))}"
    return "; ".join(f"{', '.join(loads)}: {keys}" for keys, loads in loads_of.items())


def _table(
    rows: pd.DataFrame, column_names: dict[str, tuple[str, str]], letters: int
) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Return the table of units by columns, with chance as the last row if known; its texts; its names."""
    first = rows.drop_duplicates("unit").sort_values(
        ["family", "mixer", "series", "d_model", "state_resident"], key=by_family
    )
    starred = rows.assign(star=np.where(settled(rows), "", "*"))
    order = list(column_names)
    wide, stars = (
        starred.pivot(index="unit", columns="column", values=name).reindex(first["unit"], columns=order)
        for name in ("accuracy", "star")
    )
    widths = len(set(rows["d_model"])) > 1
    names = [in_words(row, widths) for row in first.to_dict("records")]
    chance = rows.drop_duplicates("column").set_index("column")["chance"]
    guesses = chance.reindex(order).to_numpy(float)
    if np.isfinite(guesses).all():
        names.append(GUESS["guess" not in rows or not any(rows["guess"].notna())])
        wide.loc[names[-1]], stars.loc[names[-1]] = guesses, ""
    texts = (100 * wide).map("{:.0f}".format) + stars
    return wide, texts, [textwrap.fill(name, letters) for name in names]
