"""The picture of benchmarks/tables/context.csv: time and memory against context.

python -m benchmarks.context_picture benchmarks/tables/context.csv --out docs/figures/context.png
"""

import argparse
from pathlib import Path

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.drawing import page
from analysis.drawing.style import SCREEN, Look, looks, rc
from benchmarks.context import BOTH, FORWARD, SUBJECTS
from zoo.config.compose import compose

MEASURES = {"seconds": "Processor time (s)", "peak_mb": "Memory held at most (MB)"}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.context_picture", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("table", type=Path, help="context.csv")
    parser.add_argument("--out", type=Path, required=True, help="the picture, a .png")
    options = parser.parse_args(arguments)
    with matplotlib.rc_context(rc(SCREEN)):
        page.write(options.out, page.png(draw(pd.read_csv(options.table))))
    return 0


def draw(rows: pd.DataFrame) -> Figure:
    """A column of panels a pass, a row a measure, a line a subject."""
    rows = rows.assign(peak_mb=rows["peak_bytes"] / 2**20)
    figure = page.new(1.5 * SCREEN.width, 1.4 * SCREEN.height)
    axes, known = figure.subplots(2, 2, sharex=True, sharey="row"), styles(rows)
    for across, kind in enumerate((FORWARD, BOTH)):
        axes[0, across].set_title(kind.capitalize())
        axes[1, across].set_xlabel("Tokens of context")
        for down, (measure, words) in enumerate(MEASURES.items()):
            lines(axes[down, across], rows.loc[rows["pass"] == kind], measure, known)
            axes[down, 0].set_ylabel(words)
    handles = [
        Line2D([], [], color=look.colour, marker=look.marker, label=name) for name, look in known.items()
    ]
    said = (
        f"One layer of width 64, two heads, one sequence, float32, one thread of {rows['device'].iloc[0]}. "
        "All but full attention have 1,024 tokens in view; SE-Attn retrieves 256 more. "
        "Dotted: in proportion to the length."
    )
    page.finish(figure, [*handles], said, SCREEN)
    return figure


def styles(rows: pd.DataFrame) -> dict[str, Look]:
    """subject -> its mixer's colour and marker in all pictures."""
    points = []
    for name in rows["subject"].unique():
        cell = compose(SUBJECTS[name].split())
        about = cell.config["mixer"]["about"]
        points.append({"series": name, "mixer": cell.mixer, "family": about["family"]})
    return looks(pd.DataFrame(points))


def lines(ax: Axes, rows: pd.DataFrame, measure: str, known: dict[str, Look]) -> None:
    for name, look in known.items():
        part = rows.loc[(rows["subject"] == name) & rows[measure].notna()].sort_values("tokens")
        ax.plot(part["tokens"], part[measure], color=look.colour, marker=look.marker, label=name)
    lengths = sorted(rows["tokens"].unique())
    least = rows.loc[rows["tokens"] == lengths[0], measure].min()
    ax.plot(
        lengths, [0.6 * least * length / lengths[0] for length in lengths], ":", color="0.6", linewidth=0.8
    )
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(lengths, [f"{length // 1024}k" for length in lengths])
    ax.yaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()


if __name__ == "__main__":
    raise SystemExit(main())
