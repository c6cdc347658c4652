"""Print what every point recalls at each slice of the test split, as a Markdown table.

python -m analysis.loads results/learning > docs/learning.md
"""

import argparse
import sys
from pathlib import Path

from zoo.common.terminal import command
from zoo.results.reading import left_out

from .pareto import Pareto, pareto
from .records.cells import slices
from .records.readable import readable


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m analysis.loads", description="What every point recalls at each slice, as Markdown."
    )
    parser.add_argument("results", type=Path, nargs="+", help="folders that zoo.run wrote to, or archives")
    parser.add_argument("--where", default="", help='keep some cells only, such as "d_model == 64"')
    options = parser.parse_intermixed_args(arguments)
    try:
        table, *unread, _ = readable(*options.results)
        text = markdown(pareto(table, where=options.where), slices(table, "test"), options.results[0].name)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(text)
    return left_out(*unread)


def markdown(shown: Pareto, order: list[str], name: str) -> str:
    """One row a point: accuracy at each slice in per cent, mean over seeds at the chosen learning rate."""
    head = ["mixer", "settings", "state", "lr", "seeds", *order]
    lines = [
        "# Accuracy at each slice",
        "",
        f"Accuracy in per cent on the test split, as `python -m analysis.loads results/{name}` prints it.",
        "`state` is the scalars that the whole model keeps of a sequence, the most at any point of the",
        "longest slice. `lr` is the best learning rate of those that were tried, and accuracy the mean over",
        "seeds. A row of one seed shows that a mixer trains; it is no ranking.",
        "",
        markdown_row(head),
        markdown_row(["---", "---", *["--:"] * (len(head) - 2)]),
    ]
    alone = {
        name: dict(zip(rows["point"], rows["accuracy"], strict=True)) for name, rows in shown.by_slice.items()
    }
    rows = shown.points.sort_values("accuracy", ascending=False, kind="stable")
    return "\n".join(
        lines + [_point(row, [alone[name] for name in order]) for row in rows.to_dict("records")]
    )


def _point(row: dict, alone: list[dict[str, float]]) -> str:
    seeds = f"{row['seeds']}" + (f" ({row['diverged']} diverged)" if row["diverged"] else "")
    fields = [row["series"], f"d_model={row['d_model']} {row['knobs']}".strip()]
    fields += [f"{row['state_resident']:,.0f}", f"{row['lr']:.3g}", seeds]
    known = [scores.get(row["point"]) for scores in alone]  # a point of another load has no such slice
    return markdown_row(fields + ["-" if score is None else f"{100 * score:.1f}" for score in known])


def markdown_row(fields: list[str]) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(fields)} |"


if __name__ == "__main__":
    command(main)
