"""Show the status of a results folder: `python -m zoo.status RESULTS`."""

import time
from argparse import ArgumentParser
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from zoo.common import terminal
from zoo.common.foreign import visible
from zoo.common.terminal import command_parser, console, counted, slim
from zoo.results import manifest
from zoo.results.cell_status import OVER, STATES, Look, Standing, State
from zoo.results.home import empty, meant, others_in, shown
from zoo.results.reading import INCOMPLETE, left_out

HELP = """How a results folder stands, read from its files alone: nothing is written, no scheduler is asked.

  python -m zoo.status results/demo            counts, sweeps, and the cells that need a look
  python -m zoo.status results/demo --watch    again and again, until every cell is through

done      it has a record                     running   a living process works on it
diverged  done: its loss was not finite       stale     it was begun, and its process is dead or silent
failed    it has an error.txt                 pending   a sweep wants it, nobody works on it
damaged   its record cannot be read, or is another cell's: exit code 3

The command of a sweep, given again, runs what is pending, stale or failed."""

LONGEST_PAUSE = 86_400.0  # seconds
MOST_ROWS = 30  # of each table, unless all are asked for
TITLES: dict[State, str] = {
    "running": "running",
    "stale": "stale: the same command goes on with them",
    "pending": "pending, and begun: the same command goes on with them",
    "failed": "failed: the same command tries them again",
    "diverged": "diverged: they stay in the data",
    "damaged": "damaged: their records cannot be read, and count nowhere",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the cells' status; return 0, 2 with a line on what is wrong, 3 if a record is damaged, or 130."""
    args = _parser().parse_intermixed_args(argv)
    try:
        if not 0 < args.every <= LONGEST_PAUSE:
            raise ValueError(f"--every (={args.every:g}) must be seconds, more than 0 and at most a day.")
        looks, most = [Look(home) for home in meant(args.results)], None if args.all else MOST_ROWS
        if args.watch and len(looks) > 1:
            raise ValueError("--watch looks at one folder: name one.")
        if args.watch:
            reports = [watch(looks[0], most, args.every)]
        else:
            reports = [Report(look, most) for look in looks]
            # print one report after the other, under the names of their folders where there are several
            for report in reports:
                if len(reports) > 1:
                    console().print(Text(shown(report.home), style="bold underline"))
                console().print(Group(*report.parts()))
    except ValueError as error:
        return terminal.say(str(error), terminal.USAGE)
    except KeyboardInterrupt:
        return terminal.INTERRUPTED
    unread = left_out([line for report in reports for line in report.unread])
    return unread or (INCOMPLETE if any(report.counts["damaged"] for report in reports) else terminal.OK)


def _parser() -> ArgumentParser:
    parser = command_parser("zoo.status", HELP)
    terminal.add_results(parser)
    parser.add_argument("--watch", action="store_true", help="until every cell is through, or Ctrl-C")
    parser.add_argument("--every", type=float, default=2.0, metavar="S", help="seconds between two looks (2)")
    parser.add_argument("--all", action="store_true", help=f"all cells, not the first {MOST_ROWS} of a table")
    return parser


class Report:
    """The status of a folder at one moment, ready to print.  ValueError: the folder has no cell."""

    def __init__(self, look: Look, most: int | None) -> None:
        self.home, self.most = look.home, most
        self.unread: list[str] = []
        self.sweeps = manifest.read_all(look.home, self.unread)
        self.words = {
            run_id: words for sweep in self.sweeps.values() for run_id, words in sweep.cells.items()
        }
        self.cells = look(self.words)
        if not self.cells:
            raise ValueError(empty(look.home, "no cell"))
        self.counts = Counter(cell.state for cell in self.cells)

    @property
    def through(self) -> bool:
        """Return whether every cell has ended, in whatever way."""
        return not any(self.counts[state] for state in ("running", "stale", "pending"))

    def line(self) -> str:
        parts = [f"{self.counts[state]} {state}" for state in STATES if self.counts[state]]
        started = sum(cell.state == "pending" and bool(cell.note) for cell in self.cells)
        suffix = f", {started} of the pending begun" if started else ""
        return f"{counted(len(self.cells), 'cell')}: {', '.join(parts)}{suffix}"

    def parts(self) -> Iterator[RenderableType]:
        """Yield what to print, in order."""
        yield Text(self.line(), style="bold")
        yield self._by_mixer()
        if self.sweeps:
            yield _table(None, ("sweep", "cells", "done", "last started", "command"), self._by_sweep())
        if self.counts["failed"]:
            yield from self._listed("failed", ("cells", "error", "traceback, of the first"), self._by_error())
        for state in ("running", "stale", "pending", "diverged", "damaged"):
            noted = [cell for cell in self.cells if cell.state == state and (cell.note or state in OVER)]
            if noted:
                yield from self._listed(state, ("cell", ""), [(self.name(cell), cell.note) for cell in noted])
        if inner := others_in(self.home):
            yield Text(f"folders in it with results of their own: {', '.join(inner)}")

    def name(self, cell: Standing) -> str:
        """Return the cell's words if a sweep knows them, else its run id."""
        return self.words.get(cell.run_id) or visible(cell.run_id)

    def _by_mixer(self) -> Table:
        counts: dict[str, Counter[State]] = defaultdict(Counter)
        for cell in self.cells:
            counts[cell.run_id.rpartition("-")[0]][cell.state] += 1
        states: list[State] = [state for state in STATES if self.counts[state]]
        rows = [
            (visible(mixer), *(str(counts[mixer][state] or "") for state in states))
            for mixer in sorted(counts)
        ]
        return _table(None, ("mixer", *states), rows)

    def _by_sweep(self) -> Iterator[tuple[str, ...]]:
        done = {cell.run_id for cell in self.cells if cell.state in OVER}
        for sweep_id, sweep in self.sweeps.items():
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(sweep.since))
            yield sweep_id, str(len(sweep.cells)), str(len(done & sweep.cells.keys())), when, sweep.command

    def _by_error(self) -> list[tuple[str, ...]]:
        """Return a row for each error, the most frequent first: one bug may fail a thousand cells."""
        groups: dict[str, list[Standing]] = defaultdict(list)
        for cell in self.cells:
            if cell.state == "failed":
                groups[cell.note].append(cell)
        rows = sorted(groups.items(), key=lambda item: -len(item[1]))
        return [(str(len(g)), note, shown(self.home / g[0].run_id / "error.txt")) for note, g in rows]

    def _listed(
        self, state: State, columns: Sequence[str], rows: Sequence[tuple[str, ...]]
    ) -> Iterator[RenderableType]:
        yield _table(TITLES[state], columns, rows[: self.most])
        if len(rows) > (self.most or len(rows)):
            yield Text(f"and {len(rows) - len(rows[: self.most])} more rows: --all shows them")


def _table(title: str | None, columns: Sequence[str], rows: Iterable[tuple[str, ...]]) -> Table:
    table = slim(title)
    for column in columns:
        right = column in STATES or column == "cells"
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def watch(look: Look, most: int | None, every: float) -> Report:
    """Show the status until every cell has ended, redrawn on a terminal; elsewhere a line at each change."""
    screen, report = console(), Report(look, most)
    if screen.is_terminal:
        with Live(console=screen, auto_refresh=False, vertical_overflow="crop") as live:
            for report in _reports(look, most, every):
                live.update(Group(*report.parts()), refresh=True)
        return report
    shown: set[str] = set()
    last = ""
    for report in _reports(look, most, every):
        for cell in report.cells:
            if cell.state == "failed" and cell.run_id not in shown:
                shown.add(cell.run_id)
                print(f"FAILED {report.name(cell)}: {cell.note}")
        if report.line() != last:
            last = report.line()
            print(f"{time.strftime('%H:%M:%S')}  {last}", flush=True)
    return report


def _reports(look: Look, most: int | None, every: float) -> Iterator[Report]:
    while True:
        report = Report(look, most)
        yield report
        if report.through:
            return
        time.sleep(every)


if __name__ == "__main__":
    terminal.command(main)
