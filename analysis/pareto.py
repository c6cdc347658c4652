"""Accuracy against state size, from a folder of records: a table, PNG, PDF and CSV.

    python -m analysis.pareto results/
    python -m analysis.pareto results/ --slice seq_len=64,num_kv_pairs=8 --where "d_model == 64"

Without --slice the picture shows the mean of all slices, and a second one each slice in a panel of its own.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from analysis import cells, figure, learning_rate
from analysis.points import STATES, points
from analysis.table import render, whole
from zoo.results import load


@dataclass(frozen=True)
class Pareto:
    """What one call shows.  points: the picture's rows; by_slice: the same for each slice alone."""

    points: pd.DataFrame
    by_slice: dict[str, pd.DataFrame]
    state: str

    @property
    def csv(self) -> str:
        frames = [self.points, *(self.by_slice.values() if len(self.by_slice) > 1 else ())]
        return pd.concat(frames, ignore_index=True).to_csv(
            index=False, float_format="%.6g", lineterminator="\n"
        )


def pareto(
    table: pd.DataFrame,
    *,
    split: str = "test",
    of: list[str] | None = None,
    state: str = "resident",
    where: str = "",
) -> Pareto:
    """From the table of `zoo.results.load` to what the picture shows.

    of: slices to take the mean over; None is all of the split.  where: a pandas query on the table's columns.
    Raises ValueError, one line, for what cannot be shown: an unknown slice or column, nothing left, ...
    """
    table = cells.identify(_where(table, where) if where else table)
    known = cells.slices(table, split)
    unknown = [name for name in of or [] if name not in known]
    if unknown:
        raise ValueError(f"No slice {unknown[0]!r} in split {split!r}: choose among {'; '.join(known)}.")
    chosen = learning_rate.choose(table)
    wanted = of or known
    alone = {name: points(table, chosen, split=split, slices=[name], state=state) for name in wanted}
    rows = points(table, chosen, split=split, slices=wanted, state=state)
    if all(rows[f"state_{state}"].isna()):
        raise ValueError(
            f"No cell has a state counted as {state!r}: choose another --state among {', '.join(STATES)}."
        )
    return Pareto(rows, alone, state)


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        shown = pareto(
            load(options.results),
            split=options.split,
            of=options.slice,
            state=options.state,
            where=options.where,
        )
        paths = _write(shown, options)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    table = render(shown.points, state=shown.state, title=_title(shown.points))
    console = whole(table)
    console.print(table)
    left_out = sum(shown.points[f"state_{shown.state}"].isna())
    if left_out:
        console.print(f"{left_out} points have no state counted as {shown.state!r} and are not drawn.")
    console.print(figure.caption(shown.points), style="dim")
    for path in paths:
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m analysis.pareto", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("results", type=Path, help="the folder that zoo.run wrote to")
    parser.add_argument("--out", type=Path, help="where pictures and CSV go (default: RESULTS/figures)")
    parser.add_argument("--split", choices=("test", "valid"), default="test")
    parser.add_argument(
        "--slice", action="append", help="show the mean of this slice (may be repeated; default: all)"
    )
    parser.add_argument(
        "--state", choices=STATES, default="resident", help="which count of the state is the axis"
    )
    parser.add_argument(
        "--where", default="", help="keep some cells only, such as \"task == 'mqar' and d_model < 128\""
    )
    return parser


def _where(table: pd.DataFrame, condition: str) -> pd.DataFrame:
    try:
        kept = table.query(condition)
    except (NameError, SyntaxError, ValueError, TypeError, KeyError) as error:
        columns = ", ".join(map(str, table.columns))
        raise ValueError(
            f"--where ({condition!r}) is no condition ({error}) on the columns {columns}."
        ) from None
    if kept.empty:
        raise ValueError(f"--where ({condition!r}) leaves no cell of {table['run_id'].nunique()}: loosen it.")
    return kept


def _write(shown: Pareto, options: argparse.Namespace) -> list[Path]:
    folder = options.out or options.results / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    words = [*(options.slice or []), *([options.split] if options.split != "test" else [])]
    stem = "_".join(["pareto", *words, *([shown.state] if shown.state != "resident" else [])])
    paths = _save(figure.one_panel(shown.points, list(shown.by_slice), state=shown.state), folder / stem)
    if len(shown.by_slice) > 1:
        paths += _save(figure.small_multiples(shown.by_slice, state=shown.state), folder / f"{stem}_slices")
    table = folder / f"{stem}.csv"
    table.write_text(shown.csv)
    return [*paths, table]


def _save(picture: Figure, stem: Path) -> list[Path]:
    paths = [stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.pdf")]
    paths[0].write_bytes(figure.png(picture))
    paths[1].write_bytes(figure.pdf(picture))
    return paths


def _title(points: pd.DataFrame) -> str:
    split, task = points["split"].iloc[0], points["task"].iloc[0]
    return f"{task}: {split} accuracy, {points['slice'].iloc[0]}; state in scalars per sequence"


if __name__ == "__main__":
    sys.exit(main())
