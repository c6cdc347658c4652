"""Tokens a second and bytes of state against length, and accuracy against both."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..drawing import page, ticks
from ..drawing.style import Look, Style, looks
from ..statistics import scored
from ..statistics.points import in_words
from ._trained import stacks
from .gallery import Picture, Study

ABOUT = ["point", "mixer", "label", "family", "d_model", "knobs", "accuracy"]
QUESTION = ["what", "seq_len", "batch"]
SHAPES = ("-", "--", ":", "-.")  # line styles, one for each batch size


def figure(study: Study, style: Style) -> Picture:
    """Draw the answers to evaluation=speed, as medians over the seeds of a setting."""
    points = scored.means(study.table)
    of = study.table.drop_duplicates("run_id")[["run_id", "point"]].merge(points[["point", "series"]])
    of = of.assign(series=(of["series"] + " " + stacks(of, study.layers)).str.strip())
    answers = study.evaluations("speed").drop(columns="mixer").merge(of, on="run_id")
    if answers.duplicated(["run_id", *QUESTION]).any():
        raise ValueError("speed was asked more than once: keep one answer a cell, in evaluations/.")
    rows = answers.groupby(["point", "series", *QUESTION], as_index=False).agg(
        tokens_per_second=("tokens_per_second", "median"),
        slowest=("tokens_per_second", "min"),
        fastest=("tokens_per_second", "max"),
        state_bytes=("state_bytes", "first"),
        cells=("run_id", "nunique"),
    )
    rows = rows.merge(points[ABOUT], on="point").sort_values(["family", "point", *QUESTION])
    batches = " and ".join(f"{batch:,}" for batch in sorted(set(rows["batch"])))
    longest = max(rows["seq_len"])
    sentences = [
        f"Decoding speed of {batches} sequences at once against their length; the state kept for decoding; "
        f"accuracy against both at {longest:,} tokens and the largest batch. Median over seeds, on one "
        "machine; other work on it slows all of them."
    ]
    return Picture(_draw(rows, sentences[0], style), rows, sentences, {})


def _draw(rows: pd.DataFrame, caption: str, style: Style) -> Figure:
    figure = page.new(style.width * (1 if style.below else 1.6), 1.4 * style.height)
    ((prefill, decode, state), (by_prefill, by_decode, by_state)) = figure.subplots(2, 3)
    style_of = looks(rows)
    last = rows.loc[(rows["seq_len"] == max(rows["seq_len"])) & (rows["batch"] == max(rows["batch"]))]
    for what, line, point in (("prefill", prefill, by_prefill), ("decode", decode, by_decode)):
        _lines(line, rows.loc[rows["what"] == what], "tokens_per_second", style_of)
        _points(point, last.loc[last["what"] == what], "tokens_per_second", style_of)
        line.set_ylabel(f"{what.capitalize()}, tokens/s")
        point.set_xlabel(f"{what.capitalize()}, tokens/s")
    _lines(state, rows.drop_duplicates(["point", "seq_len", "batch"]), "state_bytes", style_of)
    _points(by_state, last.drop_duplicates("point"), "state_bytes", style_of)
    state.set_ylabel("State, bytes")
    by_state.set_xlabel("State, bytes")
    by_prefill.set_ylabel("Test accuracy")
    page.finish(figure, _handles(rows, style_of), caption, style)
    return figure


def _lines(ax: Axes, rows: pd.DataFrame, value: str, style_of: dict[str, Look]) -> None:
    batches = sorted(set(rows["batch"]))
    for _, line in rows.groupby(["point", "batch"]):
        look = style_of[line["series"].iloc[0]]
        dash = SHAPES[batches.index(line["batch"].iloc[0]) % len(SHAPES)]
        ax.plot(line["seq_len"], line[value], color=look.colour, marker=look.marker, linestyle=dash)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xlabel("Tokens")
    ticks.fixed(ax.xaxis, sorted(set(rows["seq_len"])), "{:,.0f}".format)
    ticks.measured(ax.yaxis)


def _points(ax: Axes, rows: pd.DataFrame, value: str, style_of: dict[str, Look]) -> None:
    for row in rows.to_dict("records"):
        look = style_of[row["series"]]
        ax.plot(row[value], row["accuracy"], color=look.colour, marker=look.marker)
    ax.set_xscale("log")
    ticks.measured(ax.xaxis)
    ax.set_ylim(-0.03, 1.06)


def _handles(rows: pd.DataFrame, style_of: dict[str, Look]) -> page.Handles:
    batches = sorted(set(rows["batch"]))
    handles: page.Handles = []
    for row in rows.drop_duplicates("point").to_dict("records"):
        look = style_of[row["series"]]
        handles.append(Line2D([], [], color=look.colour, marker=look.marker, label=in_words(row)))
    if len(batches) > 1:
        handles += [
            Line2D([], [], color="black", linestyle=SHAPES[i % len(SHAPES)], label=f"{batch:,} at once")
            for i, batch in enumerate(batches)
        ]
    return handles
