"""Show a text model's extra loss over attention at tokens that it could look up, against its state."""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from ..drawing import page
from ..drawing.style import GREY, Style, looks, marker_area
from ._trained import ABOUT, trained
from .gallery import Picture, Study

FULL = "attention"  # the mixer with which the others are compared
LEAST = 0.01  # nats a token; a smaller gap is not divided into parts


def figure(study: Study, style: Style) -> Picture:
    """Draw the answers to evaluation=ar_hits at the largest cutoff, each seed compared with attention's."""
    trained_cells = trained(study)
    gaps = of_seeds(study, trained_cells)
    rows = gaps.groupby("point", as_index=False).agg(
        hit_loss=("hit_loss", "mean"),
        gap=("gap", "mean"),
        low=("gap", "min"),
        high=("gap", "max"),
        at_hits=("at_hits", "mean"),
        whole=("apart", "mean"),
        seeds=("gap", "size"),
    )
    rows["share"] = (rows["at_hits"] / rows["whole"]).where(rows["whole"] > LEAST)
    rows = rows.merge(trained_cells.drop_duplicates("point")[ABOUT], on="point").sort_values("state_resident")
    sentences = [
        "Extra loss per token over attention, in nats, where the last tokens occurred earlier in the window "
        "(evaluation=ar_hits). Seeds are paired: mean and range."
    ]
    return Picture(_draw(rows, sentences[0], style), rows, sentences, {})


def of_seeds(study: Study, trained_cells: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each point and seed of `trained`.  gap: extra nats a hit over attention.  apart: extra
    nats a token over attention; at_hits: the part of `apart` that is due to hits."""
    answers = study.evaluations("ar_hits")
    answers = answers.loc[answers["cutoff"] == max(answers["cutoff"])].drop(columns="mixer")
    joined = answers.merge(trained_cells, on="run_id")
    if joined.duplicated(["run_id", "slice", "part"]).any():
        raise ValueError("ar_hits was asked in several ways: keep one of them, in evaluations/.")
    nats = joined.assign(nats=joined["tokens"] * joined["loss"].fillna(0))
    nats = nats.pivot_table(index=["point", "seed"], columns="part", values=["nats", "tokens"], aggfunc="sum")
    full = sorted(set(trained_cells.loc[trained_cells["mixer"] == FULL, "point"]))
    if len(full) != 1:
        raise ValueError(f"a gap to attention needs one point of mixer={FULL}, and there are {len(full)}.")
    whole, tokens = nats["nats"].sum(axis=1), nats["tokens"].sum(axis=1)
    hit = nats["nats"]["hit"]
    of = pd.DataFrame(
        {"hit_loss": hit / nats["tokens"]["hit"], "hit": hit / tokens, "whole": whole / tokens}
    ).reset_index()
    to = of.loc[of["point"] == full[0]].drop(columns="point")
    both = of.merge(to, on="seed", suffixes=("", "_full"))
    both["gap"] = both["hit_loss"] - both["hit_loss_full"]
    return both.assign(apart=both["whole"] - both["whole_full"], at_hits=both["hit"] - both["hit_full"])


def _draw(rows: pd.DataFrame, caption: str, style: Style) -> Figure:
    figure = page.new(style.width, style.height)
    ax = figure.subplots()
    style_of = looks(rows)
    for row in rows.to_dict("records"):
        look, at = style_of[row["series"]], (row["state_resident"], row["gap"])
        ax.plot([at[0]] * 2, [row["low"], row["high"]], color=look.colour, linewidth=1.0)
        ax.scatter(*at, s=look.area * marker_area(), color=look.colour, marker=look.marker, zorder=3)
        name = f"{row['series'].replace(', ', chr(10))} {row['stack']}"
        ax.annotate(name, at, (5, 4), textcoords="offset points", color=look.colour)
    ax.axhline(0, color=GREY, linewidth=0.8, linestyle=":")
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    ax.margins(x=0.2)
    ax.set_xlabel("State: scalars that decoding keeps")
    ax.set_ylabel("Loss at hits over attention's, nats")
    page.finish(figure, [], caption, style)
    return figure
