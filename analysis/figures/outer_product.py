"""Trained recall against the recall of an untrained sum of outer products of the same shape."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..drawing import legend, page
from ..drawing.style import FAMILY_COLOURS, GREY, INK, MARKERS, OTHER_COLOURS, Style
from ..statistics import scored
from ..statistics.bounds import OF_MQAR, TASK_CLASS
from ..statistics.outer_product import recalled
from .gallery import Picture, Study

TOKENS = ["task.vocab_size", "task.num_keys"]
SHAPES, TASK = "channels of a key x of a value", "tokens of the task"
SETTINGS = [*TOKENS, TASK_CLASS, "mixer.num_heads", "mixer.value_dim", "mixer.activation"]  # may be missing
SIMULATED = (*OF_MQAR, "zoo.tasks.mqar_keys.KeysMQAR")


def figure(study: Study, style: Style) -> Picture:
    """Draw each point of lightning attention with one head, trained on MQAR or mqar_keys."""
    rows = compared(study.table)
    sentences = [
        "Mean over all loads. Horizontal: an untrained sum of outer products whose keys are as far apart as "
        "possible and whose values are random, 100 rows per load. Vertical: trained, interval over seeds."
    ]
    return Picture(_draw(rows, sentences[0], style), rows, sentences, {})


def compared(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `scored.means` with the simulated recall.  ValueError: no point can be simulated."""
    table = table.reindex(columns=[*dict.fromkeys([*table, *SETTINGS])])
    one_head = (table["mixer"] == "lightning_attention") & (table["mixer.num_heads"] == 1)
    table = table.loc[one_head & (table[TASK_CLASS].isna() | table[TASK_CLASS].isin(SIMULATED))]
    if table.empty:
        raise ValueError(
            "outer_product needs lightning attention with mixer.num_heads=1, on mqar or mqar_keys: "
            "sweep=atlas_keys."
        )
    rows = scored.means(table).merge(table.drop_duplicates("point")[["point", *TOKENS]], on="point")
    keys, key_dim = rows["task.num_keys"].fillna(rows["task.vocab_size"] // 2 - 1), rows["mixer.head_dim"]
    shape = {"key_dim": key_dim, "value_dim": rows["mixer.value_dim"].fillna(key_dim)}
    memories = pd.DataFrame({"keys": keys, "values": rows["task.vocab_size"] - 1 - keys, **shape}).astype(int)
    loads = sorted(set(table.loc[table["split"] == "test", "num_kv_pairs"].astype(int)))
    simulated = [recalled(loads, **one, rng=np.random.default_rng(0)) for one in memories.to_dict("records")]
    activation = (", SiLU: " + rows["mixer.activation"].fillna("silu")).replace(", SiLU: silu", "")
    memory = memories["key_dim"].astype(str) + " x " + memories["value_dim"].astype(str) + activation
    tokens = memories["keys"].map("{:,} keys, ".format) + memories["values"].map("{:,} values".format)
    return rows.assign(**memories, simulated=simulated, memory=memory, tokens=tokens)


def _draw(rows: pd.DataFrame, caption: str, style: Style) -> Figure:
    made, axes, _ = page.multiples(1, style, most=1)
    ax, colours = axes[0], (*OTHER_COLOURS, *FAMILY_COLOURS.values())
    ends = [rows[["simulated", "low", "accuracy"]].min().min() - 0.05, 1.0]
    ax.plot(ends, ends, color=GREY, linewidth=0.8)
    hue = dict(zip(rows["tokens"].unique(), colours, strict=False))
    form = dict(zip(rows["memory"].unique(), MARKERS, strict=False))
    for row in rows.to_dict("records"):
        look: dict[str, Any] = {"color": hue[row["tokens"]], "linewidth": 1.0}
        ax.plot([row["simulated"]] * 2, [row["low"], row["high"]], **look)
        ax.plot(row["simulated"], row["accuracy"], form[row["memory"]], **look, markeredgecolor="white")
    handles: page.Handles = [
        legend.heading(SHAPES),
        *(Line2D([], [], label=name, color=INK, ls="none", marker=marker) for name, marker in form.items()),
        legend.heading(TASK),
        *(Line2D([], [], label=name, color=colour, linewidth=3) for name, colour in hue.items()),
    ]
    page.finish(
        made, handles, caption, style, x_label="Simulated recall", y_label="Trained recall",
        bold={SHAPES: INK, TASK: INK},
    )  # fmt: skip
    return made
