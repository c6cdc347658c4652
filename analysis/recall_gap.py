"""Does recall of key-value pairs predict what a model of text loses where it could look back?

    python -m analysis.recall_gap docs/results/mini_forgetting.zip docs/results/mini_forgetting_mqar.zip

TEXT holds models of text and their answers to evaluation=ar_hits, RECALL the same mixers with the same
settings, trained on a recall task.  Each mark is a mixer: its loss at hits over attention's against the mean
of its test slices, with the range of the seeds.  The rank correlation of the two leaves out attention, with
which the others are compared.  Writes OUT.png, OUT.csv and OUT.txt.
"""

from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from zoo.common.terminal import command, command_parser

from .drawing import page
from .drawing.style import GREY, SCREEN, Style, looks, marker_area, rc
from .figures import ar_gap, gallery
from .figures._trained import ABOUT, trained
from .statistics import scored
from .statistics.ranks import RankCorrelation, rank_correlation
from .statistics.seeds import APART, apart, written

SAME = ["mixer", "d_model", "knobs", "stack"]  # columns that match a model of text with one of recall


def main(arguments: list[str] | None = None) -> int:
    parser = command_parser("analysis.recall_gap", __doc__)
    for name in ("text", "recall"):
        parser.add_argument(name, type=Path, help="a folder of records, or an archive of one")
    parser.add_argument("--out", type=Path, default=Path("recall_gap"), help="the picture, without .png")
    options = parser.parse_intermixed_args(arguments)
    studies = gallery.Study(options.text), gallery.Study(options.recall)
    return gallery.command(lambda: picture(*studies, SCREEN), options.out)


def picture(text: gallery.Study, recall: gallery.Study, style: Style) -> gallery.Picture:
    """Make the picture, its table and its text.  ValueError: no answers to ar_hits, no attention, or fewer
    than three other mixers that both studies have."""
    rows = joined(text, recall)
    measured, others = correlation(rows), sum(rows["mixer"] != ar_gap.FULL)
    sentences = [
        "Loss at hits (evaluation=ar_hits) over attention's in models of text, against the accuracy of the "
        "same mixers, settings and widths, trained to recall: the mean of the test slices. Mean and range of "
        f"the seeds, or each seed where recall differs by more than {APART}. Rank correlation of "
        f"the {others} mixers beside attention {measured.rho:.2f} ({measured.low:.2f} to "
        f"{measured.high:.2f}); its interval draws mixers and seeds again."
    ]
    rows = rows.assign(seed_accuracies=[written(each) for each in rows["accuracies"]])
    rows = rows.drop(columns=["accuracies", "gaps"])
    with matplotlib.rc_context(rc(style)):
        return gallery.Picture(_draw(rows, sentences[0], style), rows, sentences, {})


def correlation(rows: pd.DataFrame) -> RankCorrelation:
    """Correlate recall with the gap, over all mixers except attention.  rows: of `joined`."""
    others = rows.loc[rows["mixer"] != ar_gap.FULL]
    return rank_correlation(others["accuracies"].tolist(), others["gaps"].tolist())


def joined(text: gallery.Study, recall: gallery.Study) -> pd.DataFrame:
    """Return a row per mixer that both studies have.  accuracies, gaps: of each seed; and mean, low, high."""
    of_text, of_recall = trained(text), trained(recall)
    gaps = _spread(ar_gap.of_seeds(text, of_text), "gap", "gaps")
    scores = _spread(scored.of_seeds(recall.table), "accuracy", "accuracies")
    about = of_text.drop_duplicates("point")[ABOUT]
    other = of_recall.drop_duplicates("point")[["point", *SAME]]
    scores = scores.merge(other, on="point")
    both = about.merge(gaps, on="point").merge(scores, on=SAME, suffixes=("", "_recall"))
    cells = pd.concat([of_text, of_recall]).groupby("point")["run_id"].agg(" ".join)
    pairs = zip(both["point"], both["point_recall"], strict=True)
    both["run_ids"] = [f"{cells[text]} {cells[recall]}" for text, recall in pairs]
    return both.drop(columns=["point", "point_recall"]).sort_values("accuracy", ignore_index=True)


def _spread(seeds: pd.DataFrame, value: str, all_: str) -> pd.DataFrame:
    """Return a row per point: the seeds as an array, their mean, lowest and highest."""
    grouped = seeds.groupby("point")[value]
    ranges = grouped.agg(["mean", "min", "max"]).set_axis([value, f"{value}_low", f"{value}_high"], axis=1)
    return ranges.assign(**{all_: grouped.agg(list).map(np.asarray)}).reset_index()


def _draw(rows: pd.DataFrame, caption: str, style: Style) -> Figure:
    figure = page.new(style.width, style.height)
    ax = figure.subplots()
    rows = rows.assign(series=(rows["series"] + " " + rows["stack"]).str.strip())
    style_of, handles = looks(rows), []
    for row in rows.to_dict("records"):
        look, accuracy, gap = style_of[row["series"]], row["accuracy"], row["gap"]
        line = {"color": look.colour, "linewidth": 1.0}
        ax.plot([row["accuracy_low"], row["accuracy_high"]], [gap, gap], **line)
        ax.plot([accuracy, accuracy], [row["gap_low"], row["gap_high"]], **line)
        marks, area = apart(row["seed_accuracies"]) or [accuracy], look.area * marker_area()
        ax.scatter(marks, [gap] * len(marks), s=area, color=look.colour, marker=look.marker, zorder=3)
        handles.append(Line2D([], [], color=look.colour, marker=look.marker, ls="", label=row["series"]))
    ax.axhline(0, color=GREY, linewidth=0.8, linestyle=":")
    ax.set_xlabel("Accuracy of recall")
    ax.set_ylabel("Text: loss at hits over attention's, nats")
    page.finish(figure, handles, caption, style)
    return figure


if __name__ == "__main__":
    command(main)
