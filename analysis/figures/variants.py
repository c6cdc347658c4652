"""Variants side by side: a line a point, a dot a seed, a bar for the mean of the seeds."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ..drawing import page
from ..drawing.figure import caption
from ..drawing.style import GREY, INK, Style, family_colours, small
from ..records.cells import settings, slices, word
from ..statistics import scored
from .gallery import Picture, Study

SCORES = ("accuracy", "low", "high", "interval", "seeds", "run_ids", "chance")
HEIGHT = 0.24  # inches a line
# label -> the settings that set its points apart, each with its most common value
Distinctive = dict[str, dict[str, object]]


def figure(study: Study, style: Style) -> Picture:
    """Draw the mean of all slices, for results of one load, with the best variant first."""
    rows = scored.of_one_load(study.table)
    distinctive = {
        str(label): {key: _common(kin[key].tolist()) for key in _distinctive(kin)}
        for label, kin in rows.groupby("label", sort=False)
    }
    rows = rows.assign(variant=names(rows, distinctive))
    rows = rows.sort_values("accuracy", ascending=False, ignore_index=True)
    of_seeds = scored.of_seeds(study.table).merge(rows[["point", "variant"]], on="point")
    how = caption(rows, slices(study.table, "test"), ranges=False)
    parts = ("Dots: seeds. Bars: their mean. Dotted line: chance.", usual(distinctive), how)
    sentences = [" ".join(filter(None, parts))]
    shown = rows.reindex(columns=["variant", "mixer", "state_resident", *SCORES])
    return Picture(draw(rows, of_seeds, sentences[0], style), shown, sentences, {})


def names(rows: pd.DataFrame, distinctive: Distinctive) -> list[str]:
    """Return each point's label and what sets it apart within its mixer: "SE-Attn, summary=mean_key".

    A value that more than half of a mixer's points have is left out (`usual` states it once).
    """
    names_of = []
    for row in rows.to_dict("records"):
        shown = ((key, row[key]) for key, common in distinctive[row["label"]].items() if row[key] != common)
        words = [_setting(key, value) for key, value in shown if word(value)]
        names_of.append(", ".join(filter(None, (row["label"], " ".join(words)))))
    return names_of


def usual(distinctive: Distinctive) -> str:
    """Name the usual settings of each mixer: "SE-Attn has block_size=2 unless stated otherwise."."""
    sentences = []
    for label, settings_ in distinctive.items():
        shown = ((key, common) for key, common in settings_.items() if common is not None)
        if words := [_setting(key, common) for key, common in shown if word(common)]:
            sentences.append(f"{label} has {' '.join(words)} unless stated otherwise.")
    return " ".join(sentences)


def _setting(key: str, value: object) -> str:
    return f"{key.partition('.')[2] or key}={word(value)}"


def _common(values: Sequence[object]) -> object:
    """Return the value of more than half of the points; None: there is none."""
    most, times = Counter(values).most_common(1)[0]
    return most if 2 * times > len(values) else None


def _distinctive(kin: pd.DataFrame) -> list[str]:
    """Return the settings that differ; those of a recipe only if they tell more points apart than before."""
    distinctive, kinds = [], 1
    for key in ("d_model", *settings(kin)):
        apart = len(kin[[*distinctive, key]].astype(str).drop_duplicates())
        differs = not key.startswith("adaptation.") and len(set(map(str, kin[key]))) > 1
        if differs or apart > kinds:
            distinctive, kinds = [*distinctive, key], apart
    return distinctive


def draw(rows: pd.DataFrame, of_seeds: pd.DataFrame, text: str, style: Style) -> Figure:
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
    page.finish(made, [], text, style)
    return made
