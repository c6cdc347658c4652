"""Variants beside each other: a line a point, a dot a seed, their mean and how far it can be trusted."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis.drawing import page
from analysis.drawing.figure import caption
from analysis.drawing.style import GREY, INK, Style, family_colours, small
from analysis.figures.gallery import Picture, Study
from analysis.records.cells import settings, slices, word
from analysis.statistics import scored

SCORES = ("accuracy", "low", "high", "interval", "seeds", "chance")
HEIGHT = 0.24  # inches of a line


def figure(study: Study, style: Style) -> Picture:
    """The mean of all slices; results of one load, the best variant first."""
    rows = scored.means(study.table)
    if len(set(rows["load"])) != 1:
        raise ValueError("These results are of several loads: keep one with --where.")
    rows = rows.assign(variant=names(rows)).sort_values("accuracy", ascending=False, ignore_index=True)
    of_seeds = scored.of_seeds(study.table).merge(rows[["point", "variant"]], on="point")
    how = caption(rows, slices(study.table, "test"), ranges=False)
    says = [f"A dot a seed, a bar their mean; dotted: chance. {how}"]
    shown = rows.reindex(columns=["variant", "mixer", "state_resident", *SCORES])
    return Picture(draw(rows, of_seeds, says[0], style), shown, says, {})


def names(rows: pd.DataFrame) -> list[str]:
    """The label, and the settings in which points of its mixer differ: "SE-Attn, summary=mean_key"."""
    found = []
    for row in rows.to_dict("records"):
        told = _told(rows.loc[rows["label"] == row["label"]])
        words = [f"{key.partition('.')[2] or key}={word(row[key])}" for key in told if word(row[key])]
        found.append(", ".join(filter(None, (row["label"], " ".join(words)))))
    return found


def _told(kin: pd.DataFrame) -> list[str]:
    """The settings that differ; of a recipe those alone that tell more than the ones before them."""
    told, kinds = [], 1
    for key in ("d_model", *settings(kin)):
        apart = len(kin[[*told, key]].astype(str).drop_duplicates())
        differs = not key.startswith("adaptation.") and len(set(map(str, kin[key]))) > 1
        if differs or apart > kinds:
            told, kinds = [*told, key], apart
    return told


def draw(rows: pd.DataFrame, of_seeds: pd.DataFrame, said: str, style: Style) -> Figure:
    made = page.new(style.width * (1.0 if style.below else 1.6), 0.7 + HEIGHT * len(rows))
    ax, colours = made.subplots(), family_colours(rows)
    for place, row in enumerate(rows.to_dict("records")):
        scores = of_seeds.loc[of_seeds["point"] == row["point"], "accuracy"]
        ax.scatter(scores, [place] * len(scores), s=14, color=colours[row["family"]], alpha=0.6, linewidths=0)
        ax.plot([row["accuracy"]] * 2, [place - 0.35, place + 0.35], color=INK, linewidth=1.2)
    if not np.isnan(guess := float(rows["chance"].iloc[0])):
        ax.axvline(guess, color=GREY, linestyle=":", linewidth=0.8)
    ax.set_yticks(range(len(rows)), rows["variant"], fontsize=small())
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlim(-0.03, 1.03)
    ax.set_xlabel("Test accuracy")
    page.finish(made, [], said, style)
    return made
