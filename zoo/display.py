"""What a person sees while cells run and when they have: live lines on a terminal, plain lines elsewhere."""

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from zoo.attempt import Failure
from zoo.cell import Cell
from zoo.outcome import Progress as CellProgress
from zoo.results import slice_name

MOST_LINES = 30  # of running cells; a cluster runs more than a terminal is high
MOST_ROWS = 200  # of the tables at the end; nobody reads ten thousand, and they take a while


def console() -> Console:
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=160)


class SweepDisplay:
    """One bar for the sweep and one line for each running cell."""

    def __init__(self, *, total: int, done: int, how: str) -> None:
        self.console = console()
        self.total, self.done, self.how = total, done, how
        self.lines: dict[str, TaskID] = {}
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )

    def __enter__(self) -> Self:
        left = self.total - self.done
        self.console.print(
            f"{self.total} cells: {self.done} done already, {left} to run, {self.how}",
            style="bold",
        )
        self.bars.start()
        self.overall = self.bars.add_task("sweep", total=left, note="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bars.stop()

    def started(self, cell: Cell) -> None:
        if cell.run_id in self.lines:
            return  # another process had it, and left it behind
        seen = len(self.lines) < MOST_LINES
        self.lines[cell.run_id] = self.bars.add_task(str(cell), total=1, note="starting", visible=seen)

    def progress(self, cell: Cell, at: CellProgress) -> None:
        self.bars.update(self.lines[cell.run_id], completed=at.step, total=at.total_steps, note=note(at))  # pyright: ignore

    def stopped(self, cell: Cell) -> None:
        """It waits to go on."""
        self._drop(cell)

    def note(self, text: str) -> None:
        """How the sweep as a whole does."""
        self.bars.update(self.overall, note=text)

    def finished(self, cell: Cell, record: dict[str, Any]) -> None:
        self._ended(cell, f"{record['status']}  {summary(record)}  {record['wall_seconds']:.0f} s")

    def failed(self, cell: Cell, reason: str) -> None:
        self._ended(cell, f"FAILED  {reason}")

    def _ended(self, cell: Cell, text: str) -> None:
        self._drop(cell)
        self.bars.advance(self.overall)
        self.done += 1
        self.console.print(f"[{self.done}/{self.total}] {cell}: {text}", markup=False, soft_wrap=True)

    def _drop(self, cell: Cell) -> None:
        self.bars.remove_task(self.lines.pop(cell.run_id))
        for line in list(self.lines.values())[:MOST_LINES]:
            self.bars.update(line, visible=True)

    def report(self, records: Sequence[dict[str, Any]], failures: Sequence[Failure]) -> None:
        """The tables at the end: every result, then every failure."""
        if records:
            self.console.print(result_table(records))
        if len(records) > MOST_ROWS:
            self.console.print(f"and {len(records) - MOST_ROWS} more: python -m zoo.collect writes them all")
        diverged = sum(record["status"] == "diverged" for record in records)
        if diverged:
            self.console.print(f"{diverged} diverged: their loss was not finite; they stay in the data")
        if failures:
            table = Table(title="failed; the same command tries them again", title_justify="left")
            for column in ("cell", "error", "traceback"):
                table.add_column(column, overflow="fold")
            for failure in failures[:MOST_ROWS]:
                table.add_row(str(failure.cell), failure.reason, str(failure.cell.folder / "error.txt"))
            self.console.print(table, markup=False)
        if len(failures) > MOST_ROWS:
            self.console.print(
                f"and {len(failures) - MOST_ROWS} more: python -m zoo.status counts them by error"
            )


def result_table(records: Iterable[dict[str, Any]]) -> Table:
    """One row a cell, one column a test slice: accuracy.  Of very many, the first."""
    keys = ("mixer", "d_model", "state_resident", "lr", "seed")
    records = sorted(records, key=lambda r: tuple(r[key] for key in keys))[:MOST_ROWS]
    slices = list(
        dict.fromkeys(slice_name(s["slice"]) for r in records for s in r["slices"] if s["split"] == "test")
    )
    table = Table(title="accuracy on the test split, by slice", title_justify="left")
    for column in ("mixer", "knob", "d_model", "state", "lr", "seed", *slices):
        left = column in ("mixer", "knob")
        table.add_column(column.replace(",", "\n"), justify="left" if left else "right")
    for r in records:
        scores = {slice_name(s["slice"]): s["accuracy"] for s in r["slices"] if s["split"] == "test"}
        cells = ["diverged" if r["status"] == "diverged" else percent(scores.get(s)) for s in slices]
        keys = (r["mixer"], knob(r), r["d_model"], r["state_resident"], f"{r['lr']:g}", r["seed"])
        table.add_row(*map(str, keys), *cells)
    return table


def slice_table(record: dict[str, Any]) -> Table:
    """One cell: every slice of every split, with its counts."""
    bounded = any(entry["coverage"] < 1 for entry in record["slices"])
    table = Table(title="accuracy by slice", title_justify="left")
    columns = ["split", "slice", "accuracy", "loss", "answers", "rows"] + ["coverage"] * bounded
    for column in columns:
        table.add_column(column, justify="left" if column in ("split", "slice") else "right")
    for e in record["slices"]:
        loss = "-" if e["loss"] is None else f"{e['loss']:.3f}"
        row = [
            e["split"],
            slice_name(e["slice"]),
            percent(e["accuracy"]),
            loss,
            str(e["answers"]),
            str(e["rows"]),
        ]
        table.add_row(*row, *[percent(e["coverage"])] * bounded)
    return table


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}%"


def note(at: CellProgress) -> str:
    """How a running cell does, in a few words."""
    parts = [at.message]
    if at.loss is not None:
        parts.append(f"loss {at.loss:.3f}")
    if at.valid_accuracy is not None:
        parts.append(f"valid {percent(at.valid_accuracy)}")
    return "  ".join(parts)


def summary(record: dict[str, Any]) -> str:
    """Accuracy of each test slice, in the order of the table at the end; coverage where it is bounded."""
    tests = [entry for entry in record["slices"] if entry["split"] == "test"]
    text = "test " + " ".join(percent(entry["accuracy"]) for entry in tests)
    if all(entry["coverage"] == 1 for entry in tests):
        return text
    return text + " (coverage " + " ".join(percent(entry["coverage"]) for entry in tests) + ")"


def knob(record: dict[str, Any]) -> str:
    """The settings that the mixer is swept over: "window=16"."""
    settings = record["mixer_settings"]
    own = [key for key in record["knob"] if key in settings and key != "d_model"]
    return " ".join(f"{key}={settings[key]}" for key in own)


class CellDisplay:
    """One cell in this process: what it is, a live line, what it scored."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.console = console()
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=32),
            MofNCompleteColumn(),  # "0/?" until the first word from training says how many
            TextColumn("steps"),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
            transient=True,
        )

    def __enter__(self) -> Self:
        from zoo.describe import describe  # torch: seconds, which zoo.status should not cost

        for key, value in describe(self.cell).items():
            self.console.print(f"{key:12} {value}", markup=False, soft_wrap=True)
        self.bar.start()
        self.line = self.bar.add_task("training", total=None, note="starting")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def progress(self, at: CellProgress) -> None:
        self.bar.update(self.line, completed=at.step, total=at.total_steps, note=note(at))

    def report(self, record: dict[str, Any], was_done: bool) -> None:
        self.console.print(slice_table(record))
        if record["status"] == "diverged":
            self.console.print(f"diverged: the loss was not finite at step {record['diverged_step']}")
        took = f"{record['wall_seconds']:.1f} s"
        text = f"done before, in {took}; not done again" if was_done else f"done in {took}"
        self.console.print(f"{text}; the record: {self.cell.folder}", markup=False, soft_wrap=True)
