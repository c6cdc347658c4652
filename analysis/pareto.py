"""Draw accuracy against state size, from folders of records: a table, PNG, PDF and CSV.

    python -m analysis.pareto results/
    python -m analysis.pareto results/ --slice seq_len=64,num_kv_pairs=8 --where "d_model == 64"
    python -m analysis.pareto results/ --axis throughput --style paper
    python -m analysis.pareto results/ --points mine.csv
    python -m analysis.pareto results/demo docs/results/mini_based_fig2.zip     several in one picture

Without --slice the picture shows the mean of all slices, and a second picture has a panel for each slice.
Cells with different test sets (another task, other slices) get a panel each, never a common mean.
If there are more mixers than a legend can tell apart, a further picture has a panel for each.

Exit code: 0; 1 if nothing was drawn; 3 if pictures were drawn, but records could not be read, or a point lies
above what is possible, so that something is wrong.
"""

import argparse
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from zoo.common.table_text import add_forms, print_table
from zoo.common.terminal import add_results, command, command_parser, console, fitting, say

from . import output
from .drawing import figure, own_points, page
from .drawing.style import SCREEN, STYLES, Style, crowded
from .records import cells
from .records.readable import as_csv, filtered, listed, once, readable
from .state_bits import command as state_bits
from .statistics import bounds, learning_rate
from .statistics.axes import AXES
from .statistics.points import points, uneven, versions
from .statistics.table import render

SPARE = ("lr", "seeds", "interval")  # columns to leave out on a narrow terminal, from the first on
RECIPE = r"^(?:max_examples$|precision$|block\.class$|optim\.(?!eval_|check_))"  # settings of training
STATES = np.geomspace(0.03, 2.0**24, 900)  # scalars at which bounds are computed
BITS = "bits"  # an axis whose numbers come from evaluation=state_bits, not from records
NEAR, WHOLE, NONE = "near", "whole", "none"
DRAWN, NOTHING, WRONG = 0, 1, 3  # exit codes


@dataclass(frozen=True)
class Load:
    """One panel.  points: a row a point, the mean over slices; touched: the same for the axis touched, if a
    point reads less than it keeps, else None; by_slice: slice -> the rows of that slice alone."""

    name: str
    slices: list[str]
    points: pd.DataFrame
    touched: pd.DataFrame | None
    by_slice: dict[str, pd.DataFrame]
    vocab_size: float | None

    def bound(self, axis: str) -> pd.DataFrame | None:
        """Return the curves that no model can exceed, as means over the slices; None: no bound is known."""
        curves = bounds.curves(self.slices, self.vocab_size, STATES) if AXES[axis].bits else None
        return None if curves is None or curves.empty else curves


@dataclass(frozen=True)
class Pareto:
    """All panels of one call.  notes: lines on uneven or missing points; wrong: lines on points above what is
    possible; extra: the points of a file (`analysis.drawing.own_points`)."""

    loads: list[Load]
    axis: str
    notes: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    extra: pd.DataFrame | None = None

    @property
    def points(self) -> pd.DataFrame:
        return pd.concat([load.points for load in self.loads], ignore_index=True)

    @property
    def by_slice(self) -> dict[str, pd.DataFrame]:
        names = dict.fromkeys(name for load in self.loads for name in load.by_slice)
        return {
            name: pd.concat([load.by_slice[name] for load in self.loads if name in load.by_slice])
            for name in names
        }

    @property
    def csv(self) -> str:
        frames = [self.points, *(rows for rows in self.by_slice.values() if self._averages)]
        return as_csv(pd.concat(frames, ignore_index=True))

    @property
    def slices(self) -> list[str]:
        """Return the slices whose mean is drawn; several loads have none in common: []."""
        return self.loads[0].slices if len(self.loads) == 1 else []

    @property
    def _averages(self) -> bool:
        return any(len(load.by_slice) > 1 for load in self.loads)

    def pictures(self, style: Style = SCREEN, *, bound: str = NEAR) -> dict[str, "figure.Figure"]:
        """Return name -> picture: "" for all, "slices" if a mean was taken, "mixers" if there are many."""
        drawn = {"": self.picture(style, bound=bound)}
        if self._averages:
            drawn["slices"] = self.slices_picture(style)
        if crowded(self.points):
            for number, load in enumerate(self.loads, start=1):
                name = "mixers" if len(self.loads) == 1 else f"mixers_{number}"
                drawn[name] = figure.one_each(load.points, load.slices, axis=self.axis, style=style)
        return drawn

    def picture(self, style: Style = SCREEN, *, bound: str = NEAR) -> "figure.Figure":
        """Draw one panel a load, and more panels on what one step reads, if that differs from what is kept.

        bound: NEAR shows the bound for any model near the points; WHOLE widens the axis for it; NONE: none.
        """
        rows = [(load, load.points, self.axis) for load in self.loads]
        rows += [(load, load.touched, "touched") for load in self.loads if load.touched is not None]
        panels, whole = [], bound == WHOLE
        for load, shown, axis in rows:
            limit = None if bound == NONE else load.bound(axis)
            extra = self.extra if axis == self.axis else None
            panels.append(figure.Panel(shown, axis, load.name, bound=limit, whole=whole, extra=extra))
        y_label = "" if self.slices else "one load a panel"
        return figure.panels(panels, self.slices, style=style, y_label=y_label)

    def slices_picture(self, style: Style = SCREEN) -> "figure.Figure":
        """Draw one panel for each slice of each load."""
        panels = []
        for load in self.loads:
            for name, rows in load.by_slice.items():
                title = ", ".join(filter(None, [_short(load), cells.slices_in_words([name])]))
                panels.append(figure.Panel(rows, self.axis, title))
        return figure.panels(panels, style=style, y_label="one slice a panel")


def pareto(
    table: pd.DataFrame,
    *,
    split: str = "test",
    of: list[str] | None = None,
    axis: str = "resident",
    where: str = "",
) -> Pareto:
    """Compute what the pictures show from the table of `zoo.results.load`.

    of: slices to take the mean over; None: all of the split.  where: as in `analysis.records.where`.
    ValueError, one line: something cannot be shown, such as an unknown slice or column, or nothing is left.
    """
    table, notes = once(filtered(table, where))
    parts = cells.loads(cells.named(table))
    known = list(dict.fromkeys(name for part in parts.values() for name in cells.slices(part, split)))
    unknown = [name for name in of or [] if name not in known]
    if unknown:
        raise ValueError(f"No slice {unknown[0]!r} in split {split!r}: choose among {'; '.join(known)}.")
    fit = {name: part for name, part in parts.items() if set(of or []) <= set(cells.slices(part, split))}
    notes += [f"{name} lacks a slice asked for and is not drawn." for name in parts if name not in fit]
    if len(fit) > figure.MOST_PANELS:
        raise ValueError(
            f"{len(fit)} loads are too many for one page, the first {next(iter(fit))!r}: choose with --where."
        )
    loads = [_load(name, part, split, of, axis) for name, part in fit.items()]
    shown = Pareto(loads, axis, notes, bounds.in_words(bounds.violations(table)))
    if np.isnan(shown.points[AXES[axis].column].to_numpy(float)).all():
        raise ValueError(f"No cell has a number for --axis {axis}: choose another of {', '.join(AXES)}.")
    return Pareto(loads, axis, [*notes, *_notes(shown), *_recipes(table)], shown.wrong)


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_intermixed_args(arguments)
    if options.axis == BITS:
        return _against_bits(options)
    try:
        table, unread, notes, records = readable(*options.results)
        shown = pareto(table, split=options.split, of=options.slice, axis=options.axis, where=options.where)
        if mixed := versions(shown.points, records):
            notes.append(f"points whose seeds were made by different source: {listed(mixed)}.")
        shown = _with_extra(shown, options.points)
        paths = _write(shown, options)
    except (ValueError, OSError) as error:
        return say("\n".join(f"error: {line}" for line in str(error).splitlines()), NOTHING)
    _report(shown, paths, options.form)
    for note in (*notes, *shown.notes):
        print(f"note: {note}", file=sys.stderr)
    for line in [*(f"not read: {each}" for each in unread), *shown.wrong]:
        print(f"error: {line}", file=sys.stderr)
    return WRONG if unread or shown.wrong else DRAWN


def _against_bits(options: argparse.Namespace) -> int:
    """Draw the answers to evaluation=state_bits, which have their own bits and bound."""
    if options.points or options.split != "test" or options.bounds != NEAR or len(options.results) > 1:
        return say("error: --axis bits takes one folder, and no --points, --split or --bounds.", NOTHING)
    home, slices = options.results[0], options.slice or ()
    return state_bits.frontier(home, options.out, options.style, options.where, slices)


def _with_extra(shown: Pareto, path: Path | None) -> Pareto:
    """Return the panels with the points of a file, if a file is given."""
    if path is None:
        return shown
    extra = own_points.read(path, shown.axis)
    if len(shown.loads) > 1:
        raise ValueError(
            f"{path} would stand beside {len(shown.loads)} loads, which have no common accuracy: "
            "choose one with --where."
        )
    return replace(shown, extra=extra)


def _load(name: str, part: pd.DataFrame, split: str, of: list[str] | None, axis: str) -> Load:
    chosen = learning_rate.choose(part)
    wanted = of or cells.slices(part, split)
    rows = points(part, chosen, split=split, slices=wanted, axis=axis)
    reads_less = axis == "resident" and not rows["state_touched"].equals(rows["state_resident"])
    touched = points(part, chosen, split=split, slices=wanted, axis="touched") if reads_less else None
    alone = {each: points(part, chosen, split=split, slices=[each], axis=axis) for each in wanted}
    part = bounds.of_mqar(part)
    vocabularies = part[bounds.VOCAB_SIZE].unique().tolist() if bounds.VOCAB_SIZE in part else [None]
    return Load(name, wanted, rows, touched, alone, vocabularies[0])


def _notes(shown: Pareto) -> list[str]:
    rows, column = shown.points, AXES[shown.axis].column
    left_out = rows.loc[rows[column].isna()]
    lines = []
    if len(shown.loads) > 1:
        load_names = "; ".join(load.name for load in shown.loads)
        lines.append(f"the cells are of {len(shown.loads)} kinds, one panel each: {load_names}.")
    if len(left_out):
        names = listed(list(left_out["series"].unique()))
        lines.append(f"{len(left_out)} points have no {column} and are not drawn: {names}.")
    if few := [line for load in shown.loads for line in uneven(load.points)]:
        lines.append(f"points with fewer seeds than others: {'; '.join(few[:4])}{' ...' * (len(few) > 4)}.")
    if all(rows["diverged"] == rows["seeds"]):
        lines.append("every cell diverged: there is nothing but crosses to see.")
    return lines


def _recipes(table: pd.DataFrame) -> list[str]:
    """Return a line on settings of training that mixers do not share.  Missing values are not compared."""
    of_cells = table.drop_duplicates("run_id")
    differ = []
    for name in of_cells.filter(regex=RECIPE):
        known = [{*map(cells.word, of)} - {cells.MISSING} for _, of in of_cells.groupby("mixer")[name]]
        if len({frozenset(values) for values in known if values}) > 1:
            values = set().union(*known)
            short = {each.rpartition(".")[2] for each in values} if name.endswith(".class") else values
            differ.append(f"{name} ({', '.join(sorted(short, key=lambda value: (len(value), value)))})")
    text = f"not all mixers were trained alike: {'; '.join(differ)}. --where keeps one kind."
    return [text] if differ else []


def _report(shown: Pareto, paths: list[Path], form: str) -> None:
    screen = console()
    for load in shown.loads:
        first = load.points.iloc[0]
        title = f"{first['task']}: {first['split']} accuracy, {load.name or first['slice']}"
        table = render(load.points, axis=shown.axis, title=f"{title}; {AXES[shown.axis].unit}")
        print_table(form, table, fitting(table, SPARE))
    caption = figure.caption(shown.points, shown.slices)
    screen.print(caption, style="dim", markup=False, soft_wrap=not screen.is_terminal)
    for path in paths:
        screen.print(f"wrote {path}", soft_wrap=True, markup=False)


def _parser() -> argparse.ArgumentParser:
    summary, _, details = (__doc__ or "").partition("\n")
    parser = command_parser("analysis.pareto", summary, details)
    add_results(parser)
    parser.add_argument("--out", type=Path, help="where pictures and CSV go (default: RESULTS/figures)")
    parser.add_argument("--split", choices=("test", "valid"), default="test")
    parser.add_argument("--slice", action="append", help="show this slice, or the mean of several")
    says = "what accuracy is drawn against (default: resident); bits: answers to evaluation=state_bits"
    parser.add_argument("--axis", choices=(*AXES, BITS), default="resident", help=says)
    parser.add_argument("--style", choices=STYLES, default="screen", help="paper: 6.9 inches; column: 3.3")
    says = "what no model can do: where the points are, on an axis widened for it, or not at all"
    parser.add_argument("--bounds", choices=(NEAR, WHOLE, NONE), default=NEAR, help=says)
    says = "points of your own beside them: name,state_resident,accuracy (analysis/drawing/own_points.py)"
    parser.add_argument("--points", type=Path, metavar="FILE.csv", help=says)
    add_forms(parser)
    parser.add_argument("--where", default="", help='keep some cells only, such as "d_model == 64"')
    return parser


def _write(shown: Pareto, options: argparse.Namespace) -> list[Path]:
    folder = output.folder(options.results[0], "figures", options.out)
    words = [options.axis, options.style, options.split]
    usual = ("resident", "screen", "test")
    stem = "_".join(["pareto", *(options.slice or []), *(w for w in words if w not in usual)])
    style, paths = STYLES[options.style], []
    for name, picture in shown.pictures(style, bound=options.bounds).items():
        paths += page.save(picture, folder / (f"{stem}_{name}" if name else stem), style)
    return [*paths, output.write(folder / f"{stem}.csv", shown.csv.encode())]


def _short(load: Load) -> str:
    """Return a load's name without its slices, because a panel of one slice names its slice."""
    return load.name.partition("mean of ")[0].removesuffix(", ") if len(load.slices) > 1 else ""


if __name__ == "__main__":
    command(main)
