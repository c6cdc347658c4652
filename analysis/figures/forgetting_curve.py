"""Show how well a model repeats text it just read, by the text's length: a panel a model."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from zoo.evaluation.forgetting.curve import COPY, LM
from zoo.evaluation.forgetting.length import Length, memory_lengths
from zoo.results.evaluations import OTHERS

from ..drawing import page
from ..drawing.style import GREY, INK, Style, looks, small
from ..statistics.points import in_words
from ._trained import ABOUT, trained
from .gallery import Picture, Study

MARKED = {"fine": "-", "coarse": "--"}  # lengths that are drawn as vertical lines


def figure(study: Study, style: Style) -> Picture:
    """Draw the answers to evaluation=forgetting_curve, also of Hugging Face models; seeds are pooled."""
    others = _of_others(study.of_others("forgetting_curve"))
    curves = others if len(others) and not _has_cells(study) else pd.concat([_of_cells(study), others])
    if curves.duplicated(["run_id", "length", "prefix", "repeat"]).any():
        raise ValueError("forgetting_curve was asked in several ways: keep one of them, in evaluations/.")
    curves["repeat"] = curves["run_id"] + "/" + curves["repeat"].astype(str)
    lengths = pd.DataFrame([_lengths(rows) for _, rows in curves.groupby("point")])
    lengths = lengths.merge(curves.drop_duplicates("point")[ABOUT], on="point").sort_values("state_resident")
    rows = curves.groupby(["point", "kind", "length"], as_index=False).agg(
        accuracy=("accuracy", "mean"), spread=("accuracy", "std"), texts=("accuracy", "size")
    )
    sentences = [
        "Accuracy on the second half of a text of x tokens, read for the second time (colour) or after "
        "another text (grey); bands: one standard deviation over texts and seeds. Solid line: the longest "
        "text copied at 99 %. Dashed: the longest copied better than guessed, by .01. >: the longest tested."
    ]
    return Picture(_draw(rows, lengths, sentences[0], style), rows, sentences, {"lengths": lengths})


def _has_cells(study: Study) -> bool:
    try:
        return len(study.table) > 0
    except ValueError:
        return False


def _of_cells(study: Study) -> pd.DataFrame:
    answers = study.evaluations("forgetting_curve")
    return answers.drop(columns="mixer").merge(trained(study).drop(columns="seed"), on="run_id")


def _of_others(answers: pd.DataFrame) -> pd.DataFrame:
    """Return the answers of models that are no cells: each model is a point, in the family Hugging Face."""
    if answers.empty:
        return answers
    name = answers["run_id"]
    about = {
        "point": name,
        "mixer": name,
        "series": name.str.removeprefix(OTHERS),
        "label": name,
        "family": "Hugging Face",
    }
    return answers.assign(**about, d_model=0, knobs="", stack="", state_resident=float("inf"))


def _lengths(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the row of one point: each memory length in words, its tokens and its interval."""
    memory, result = memory_lengths(rows), {"point": rows["point"].iloc[0]}
    for name in ("fine", "coarse", "coarse_tested", "fine_unbroken"):
        length: Length = getattr(memory, name)
        result |= {name: str(length), f"{name}_tokens": length.tokens}
        result |= {f"{name}_low": length.low, f"{name}_high": length.high}
    return result | {"dip": memory.dip, "seeds": rows["run_id"].nunique()}


def _draw(rows: pd.DataFrame, lengths: pd.DataFrame, caption: str, style: Style) -> Figure:
    figure, axes, _ = page.multiples(len(lengths), style, most=style.across)
    style_of = looks(lengths)
    for ax, row in zip(axes, lengths.to_dict("records"), strict=True):
        colour = style_of[row["series"]].colour
        of_point = rows.loc[rows["point"] == row["point"]]
        for kind, shade in ((COPY, colour), (LM, GREY)):
            _curve(ax, of_point.loc[of_point["kind"] == kind], shade)
        for name, line in MARKED.items():
            if row[f"{name}_tokens"]:
                ax.axvline(row[f"{name}_tokens"], color=INK, linewidth=0.8, linestyle=line)
        name = f"{in_words(row)} {row['stack']}".strip() if row["d_model"] else str(row["series"])
        ax.set_title(f"{name}\nfine {row['fine']}, coarse {row['coarse']}", fontsize=small(), color=colour)
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        ax.set_ylim(-0.02, 1.02)
    page.finish(figure, [], caption, style, x_label="Tokens of the text", y_label="Accuracy")
    return figure


def _curve(ax: Axes, rows: pd.DataFrame, colour: str) -> None:
    x, y, spread = (rows[name].to_numpy(float) for name in ("length", "accuracy", "spread"))
    ax.plot(x, y, color=colour, linewidth=1.6)
    band = np.nan_to_num(spread)
    ax.fill_between(x, np.clip(y - band, 0, 1), np.clip(y + band, 0, 1), color=colour, alpha=0.2, linewidth=0)
