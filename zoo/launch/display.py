"""Show how cells run and what they scored: live lines on a terminal, plain lines elsewhere."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

from zoo.common.terminal import console, counted, print_whole, slim
from zoo.config.cell import Cell, without_starts
from zoo.launch.remaining import Remaining, duration
from zoo.launch.run_cell import failing
from zoo.launch.score_tables import MOST_ROWS, percent, print_results, slice_table, summary
from zoo.results.outcome import Failure
from zoo.results.outcome import Progress as CellProgress

MOST_LINES = 30  # lines of running cells; more cells may run than a terminal has lines
WIDE = 100  # columns; a terminal with fewer has no room for a bar beside each cell


def is_live(screen: Console) -> bool:
    """Return whether lines on this screen can be redrawn."""
    return screen.is_terminal and not screen.is_dumb_terminal


class Steps(ProgressColumn):
    """A column of steps: "12/800", or "12/?" until training first reports how many there are."""

    def __init__(self) -> None:
        super().__init__(Column(justify="right", no_wrap=True))

    def render(self, task: Task) -> Text:
        total = "?" if task.total is None else f"{task.total:.0f}"
        return Text(f"{task.completed:.0f}/{total}")


class TimeLeft(ProgressColumn):
    """A column of time left: "about 4 min", "-" while unknown; by pace, or the field `left` of a sweep."""

    def __init__(self) -> None:
        super().__init__(Column(justify="right", no_wrap=True, min_width=len("about 99 min")))

    def render(self, task: Task) -> Text:
        seconds = task.fields["left"]() if "left" in task.fields else task.time_remaining
        if task.finished:
            return Text(f"in {duration(task.elapsed or 0.0)}")
        return Text("-" if seconds is None else f"about {duration(max(1.0, seconds))}")


@dataclass(frozen=True)
class _Narrower:
    """Leaves room for the ^C that a terminal writes at the end of the last line: on a full line it would
    begin a new one, and the live lines would be redrawn below their old copy."""

    lines: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        return console.render(self.lines, options.update(width=options.max_width - len("^C")))


class Bars(Progress):
    """The live lines of a sweep or of a cell."""

    def get_renderable(self) -> RenderableType:
        return _Narrower(super().get_renderable())


def _bars(screen: Console, shown: bool = True, alone: bool = False) -> Progress:
    """Make the live lines: name (cut to the room), a bar where there is room, steps, scores, time left.

    alone: a single line, which disappears at the end.
    """
    what = TextColumn("{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"))
    room = alone or screen.width >= WIDE
    note = TextColumn("{task.fields[note]}", table_column=Column(no_wrap=True))
    return Bars(
        *(what, *[BarColumn(bar_width=16)] * room, Steps(), note, *[TimeElapsedColumn()] * room, TimeLeft()),
        console=screen,
        disable=not (shown and is_live(screen)),
        transient=alone,
        expand=not alone,
        refresh_per_second=2,
        speed_estimate_period=3600,  # long enough to average over the evaluations between steps
    )


class _Live:
    """A context manager that stops its live lines on exit."""

    bars: Progress

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bars.stop()


class SweepDisplay(_Live):
    """Shows a line for the sweep and one for each running cell, and prints one for each cell that has ended.

    todo: the cells that are to run.
    """

    def __init__(self, *, total: int, done: int, how: str, todo: Sequence[Cell] = ()) -> None:
        self.console = console()
        self.total, self.done, self.how = total, done, how
        self.common, self.names = words_apart(todo)
        self.unusual = sorted({cell.trainer.precision for cell in todo} - {"32-true"})
        self.remaining = Remaining(total - done)
        self.lines: dict[str, TaskID] = {}
        self.bars = _bars(self.console, shown=total > done)

    def __enter__(self) -> Self:
        left = self.total - self.done
        cells = counted(self.total, "cell")
        self.console.print(f"{cells}: {self.done} done already, {left} to run, {self.how}", style="bold")
        if self.common:
            self._print(f"all with: {self.common}")
        if self.unusual:
            self._print(f"in {', '.join(self.unusual)}: other cells than the same words make in 32-true")
        self.bars.start()
        self.overall = self.bars.add_task("sweep", total=left, note="", left=self.remaining.seconds)
        return self

    def announce(self, line: str | None) -> None:
        """Print a line about the sweep, unless it is None or empty."""
        if line:
            self._print(line)

    def started(self, *cells: Cell) -> None:
        """Add a live line for each of the cells, which one process has begun."""
        for cell in cells:
            if cell.run_id in self.lines:
                continue  # it has a line: another process ran it before, and left it unfinished
            name = self._name(cell).replace("mixer=", "").replace("mixer.", "")
            visible = len(self.lines) < MOST_LINES
            self.lines[cell.run_id] = self.bars.add_task(
                escape(name), total=None, note="starting", visible=visible
            )

    def progress(self, cell: Cell, at: CellProgress) -> None:
        """Update the cell's line."""
        self.remaining.progress(cell.run_id, at.step / max(1, at.total_steps))
        self.bars.update(self.lines[cell.run_id], completed=at.step, total=at.total_steps, note=note(at))  # pyright: ignore

    def stopped(self, cell: Cell) -> None:
        """Remove the line of a cell that waits to go on or has ended."""
        self.bars.remove_task(self.lines.pop(cell.run_id))
        for line in list(self.lines.values())[:MOST_LINES]:
            self.bars.update(line, visible=True)

    def note(self, text: str) -> None:
        """Show a note beside the line of the whole sweep."""
        self.bars.update(self.overall, note=escape(text))

    def finished(self, cell: Cell, record: dict[str, Any]) -> None:
        """Print the line of a cell that has its record."""
        text = f"{record['status']}  {summary(record)}  {record['wall_seconds']:.0f} s"
        self._ended(cell, text, whole=record["status"] == "ok")

    def failed(self, cell: Cell, reason: str) -> None:
        """Print the line of a cell that raised."""
        self._ended(cell, f"FAILED  {reason}", whole=False)

    def _ended(self, cell: Cell, text: str, whole: bool) -> None:
        self.remaining.ended(cell.run_id, whole)
        self.stopped(cell)
        self.bars.advance(self.overall)
        self.done += 1
        when = "" if is_live(self.console) else f"{time.strftime('%H:%M:%S')} "
        self._print(f"{when}[{self.done}/{self.total}] {self._name(cell)}: {text}")

    def _print(self, line: str) -> None:
        """Print a line, broken between words on a terminal and whole elsewhere."""
        self.console.print(line, markup=False, soft_wrap=not self.console.is_terminal)

    def _name(self, cell: Cell) -> str:
        return self.names.get(cell.run_id) or str(cell)

    def report(self, records: Sequence[dict[str, Any]], failures: Sequence[Failure]) -> None:
        """Print the tables at the end: every result, then every failure."""
        if records:
            print_results(self.console, records)
        diverged = sum(record["status"] == "diverged" for record in records)
        if diverged:
            self.console.print(f"{diverged} diverged: their loss was not finite; they stay in the data")
        if failures:
            table = slim("failed; the same command tries them again")
            for column in ("cell", "error", "traceback"):
                table.add_column(column, overflow="fold")
            for failure in failures[:MOST_ROWS]:
                table.add_row(str(failure.cell), failure.reason, str(failure.cell.folder / "error.txt"))
            self.console.print(table, markup=False)
        if len(failures) > MOST_ROWS:
            self.console.print(
                f"and {len(failures) - MOST_ROWS} more: python -m zoo.status counts them by error"
            )


def words_apart(cells: Sequence[Cell]) -> tuple[str, dict[str, str]]:
    """Return the words that all cells share, and run id -> the words of that cell alone.

    A single cell shares no words.  Cells that others start from are left out, and keep their full name.
    """
    targets = without_starts(cells)
    if len(targets) < 2:
        return "", {}
    common = set.intersection(*(set(cell.overrides) for cell in targets))
    shared = [word for word in targets[0].overrides if word in common]
    return " ".join(shared), {
        cell.run_id: " ".join(word for word in cell.overrides if word not in common) for cell in targets
    }


def note(at: CellProgress) -> str:
    """Return the status of a running cell in a few words; "training", the usual message, is left out."""
    parts = [] if at.message == "training" else [at.message]
    if at.loss is not None:
        parts.append(f"loss {at.loss:.3f}")
    if at.valid_accuracy is not None:
        parts.append(f"valid {percent(at.valid_accuracy)}")
    return " ".join(parts)


class CellDisplay(_Live):
    """Shows one cell that runs in this process: its description, a live line, its scores."""

    def __init__(self, cell: Cell, was_done: bool = False) -> None:
        self.cell, self.was_done = cell, was_done
        self.console = console()
        self.bars = _bars(self.console, shown=not was_done, alone=True)

    def __enter__(self) -> Self:
        from zoo.launch.describe import describe  # torch: seconds, which zoo.status should not cost

        with failing(self.cell):
            description = describe(self.cell)
        if self.console.is_terminal:
            lines = Table.grid(Column(no_wrap=True), Column(overflow="fold"), padding=(0, 1, 0, 0))
            for key, value in description.items():
                lines.add_row(key, Text(value))
            self.console.print(lines)
        else:
            for key, value in description.items():
                self.console.print(f"{key:12} {value}", markup=False, soft_wrap=True)
        self.bars.start()
        self.line = self.bars.add_task("training", total=None, note="starting")
        return self

    def progress(self, at: CellProgress) -> None:
        """Update the cell's line."""
        self.bars.update(self.line, completed=at.step, total=at.total_steps, note=note(at))

    def report(self, record: dict[str, Any]) -> None:
        """Print the scores by slice, how long the cell took, and where its record is."""
        print_whole(self.console, slice_table(record))
        if record["status"] == "diverged":
            self.console.print(f"diverged: the loss was not finite at step {record['diverged_step']}")
        what, rest = ("done before,", "; not done again") if self.was_done else ("trained and tested", "")
        text = f"{what} in {record['wall_seconds']:.1f} s{rest}"
        self.console.print(f"{text}; the record: {self.cell.place}", markup=False, soft_wrap=True)
