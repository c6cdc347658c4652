"""Accuracy of each point with a rounded state against its accuracy with an exact one, a panel a format."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.stats import mannwhitneyu, spearmanr, wilcoxon

from ..drawing import labels, legend, page
from ..drawing.style import GREY, Look, Style, by_family, looks, marker_area
from ..records import cells
from ..state_bits.answers import EVALUATION, EXACT, of_task, once
from ..statistics import scored
from ..statistics.paired import holm
from .gallery import Picture, Study

FORMATS = {"int8": "8 bits", "int4": "4 bits", "int3": "3 bits"}
NAMED = 0.3  # a mark whose point loses more accuracy has its name beside it
KNOWN = 0.5  # least accuracy in fp32 for tests: what is hardly recalled cannot be lost
MIDDLE, LARGE = (1200, 1800), (4000, 5500)  # scalars
RECURRENT = ("linear", "ssm")
CORRECTING = {  # mixers that read the value stored for a key before they write
    "comba", "deltanet", "gated_deltanet", "gated_deltanet_2", "gated_deltaproduct", "kimi_delta_attention",
    "mesanet", "moneta", "preconditioned_gated_deltanet", "preconditioned_kda", "q_delta", "rwkv7",
    "titans_linear", "titans_mlp", "ttt_linear", "ttt_mlp", "yaad",
}  # fmt: skip
ABOUT = [
    "point", "mixer", "label", "series", "family", "knobs", "d_model", "state_resident", "causal",
    "exact_decode",
]  # fmt: skip
UNMARKED = {"lr_edge": "", "coverage": 1.0, "low": float("nan"), "high": float("nan")}  # for labels


def figure(study: Study, style: Style) -> Picture:
    """Draw the answers to evaluation=state_bits that round at every token, with a scale a key channel."""
    rows = rounded(study)
    caption = (
        "Mean over test slices and seeds. The state is rounded to this many bits after every token, with one "
        "scale per key channel. On the diagonal, rounding costs nothing."
    )
    drawn, of_series = [name for name in FORMATS if name in rows], looks(rows)
    made, axes, _ = page.multiples(len(drawn), style, most=3)
    for ax, name in zip(axes, drawn, strict=True):
        _panel(ax, rows, name, of_series)
    handles, bold = legend.series_handles(rows, style.letters), legend.bold(rows)
    page.finish(
        made, handles, caption, style, x_label="Accuracy in fp32", y_label="Accuracy, rounded", bold=bold
    )
    for ax, name in zip(axes, drawn, strict=True):
        points = rows.assign(accuracy=rows[name], on_frontier=rows[EXACT] - rows[name] > NAMED, **UNMARKED)
        labels.place_names(ax, points, of_series, EXACT)
    known = rows.loc[rows["family"].isin(RECURRENT) & (rows[EXACT] >= KNOWN)]
    tests = _tests(known)
    return Picture(made, rows, [caption], {} if tests.empty else {"tests": tests})


def rounded(study: Study, least: float = 0.0) -> pd.DataFrame:
    """Return one row a point: ABOUT, its accuracy in fp32 and in each of FORMATS with answers, and seeds.

    Of a cell the slices count that have answers in all these formats and at least `least` accuracy in fp32.
    ValueError: there is none, or a cell was asked in several ways.
    """
    given = study.evaluations(EVALUATION)
    plain = given["scale"].isin(["none", "key"]) & (given["rounding"] == "nearest") & (given["every"] == 1)
    given = of_task(given.loc[plain & given["format"].isin([EXACT, *FORMATS])], study.table)
    answers = once(given)
    answers = scored.answered(answers, study.table, EVALUATION, ["slice", "format"])
    by_slice = answers.pivot_table(index=["run_id", "slice"], columns="format", values="accuracy").dropna()
    forms = [name for name in (EXACT, *FORMATS) if name in by_slice]
    if EXACT in forms:
        by_slice = by_slice[by_slice[EXACT] >= least]
    if by_slice.empty or len(forms) < 2:
        raise ValueError(
            f"rounded needs answers in {', '.join(FORMATS)} with a scale a key channel, rounded to nearest "
            "after every token: ask evaluation=state_bits with evaluation.scales=[key]."
        )
    by_cell = pd.DataFrame(by_slice.groupby("run_id").mean()).reset_index()
    table = cells.named(study.table).drop_duplicates("run_id")
    joined = table[["run_id", *ABOUT]].merge(by_cell, on="run_id")
    means = {name: (name, "mean") for name in forms}
    rows = joined.groupby(ABOUT, as_index=False, dropna=False).agg(
        **means, seeds=("run_id", "nunique"), run_ids=("run_id", " ".join)
    )
    return rows.sort_values(["family", "mixer", "state_resident"], key=by_family, ignore_index=True)


def _panel(ax: Axes, rows: pd.DataFrame, name: str, of_series: dict[str, Look]) -> None:
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, zorder=1)
    for row in rows.to_dict("records"):
        look = of_series[row["series"]]
        ax.scatter(
            row[EXACT], row[name], s=0.5 * marker_area() * look.area, c=look.colour, marker=look.marker,
            edgecolor="white", linewidth=0.4, zorder=3, clip_on=False,
        )  # fmt: skip
    ax.set_title(FORMATS[name])
    ax.set_xlim(min(rows[EXACT].tolist()) - 0.03, 1.02)
    ax.set_ylim(-0.02, 1.04)


def _tests(rows: pd.DataFrame) -> pd.DataFrame:
    """Test the accuracy that 4 bits cost, by size and by kind of mixer; empty if too few can be compared.

    of: rule, at about 1,600 scalars, a: CORRECTING, b: others (Mann-Whitney); size, a: about 1,600, b: about
    5,000 (Wilcoxon's signed ranks); order, a: Spearman's correlation of fp32 and 4 bits over n_a points.
    a, b: the medians.  n_a, n_b: mixers.  ahead: mixers that score more with b's state at 4 bits than with
    a's in fp32; ahead_3_bits: at 3 bits than with a's at 8, nearly as many.  p: two-sided, by Holm.
    """
    if "int4" not in rows:
        return pd.DataFrame()
    rows = rows.assign(lost=rows[EXACT] - rows["int4"])
    middle, large = (rows.loc[rows["state_resident"].between(*size)] for size in (MIDDLE, LARGE))
    corrects = middle["mixer"].isin(CORRECTING)
    rule, others = middle.loc[corrects, "lost"], middle.loc[~corrects, "lost"]
    both = middle.merge(large, on="mixer", suffixes=("", "_large"))
    if min(len(rule), len(others), len(both)) < 2:
        return pd.DataFrame()
    tests: list[Any] = [mannwhitneyu(rule, others), wilcoxon(both["lost"], both["lost_large"])]
    ahead = (both["int4_large"] > both[EXACT]).sum()
    sides = [("rule", rule, others, np.nan), ("size", both["lost"], both["lost_large"], ahead)]
    named = [
        {"of": of, "a": a.median(), "b": b.median(), "n_a": len(a), "n_b": len(b), "ahead": count}
        for of, a, b, count in sides
    ]
    alike: Any = spearmanr(rows[EXACT], rows["int4"])
    table = pd.DataFrame(named).assign(p=holm(np.array([test.pvalue for test in tests])))
    if {"int8", "int3"} <= set(rows):
        table.loc[table["of"] == "size", "ahead_3_bits"] = (both["int3_large"] > both["int8"]).sum()
    order = {"of": "order", "a": alike.statistic, "n_a": len(rows)}
    return pd.concat([table, pd.DataFrame([order])]).astype({"n_b": "Int64", "ahead": "Int64"})
