"""Run each cell or population in a process of its own, several at once; no death of one affects another."""

import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Protocol

from zoo.common import interrupts
from zoo.common.interrupts import Terminated
from zoo.config.cell import Cell
from zoo.launch import cards
from zoo.launch.grouping import Apart, Group, Together, groups, left
from zoo.launch.run_cell import CellFailed, run_cell
from zoo.results import lease, store
from zoo.results.atomic import DiskFull, room
from zoo.results.environment import machine
from zoo.results.outcome import Failure, Progress
from zoo.results.source import source

OUTPUT = "output.txt"  # what a cell's process prints; deleted when all went well
# The fork server imports these, so torch and Lightning are imported once, not once a cell.  Each process runs
# the main module again: what zoo.run imports belongs here, zoo.run itself does not.
PRELOADED = (
    "zoo.training.train",
    "zoo.training.population.train",
    "zoo.launch.sweep",
    "zoo.config.command_line",
)
LOOK_EVERY_S = 2.0  # how often to look at the cells that other processes run
SAVE_S = 60.0  # the time that a worker has to end its step and save, when the pool ends


class Display(Protocol):
    """What a Pool needs of a display: calls that show how its cells do."""

    def started(self, *cells: Cell) -> None: ...
    def progress(self, cell: Cell, at: Progress) -> None: ...
    def finished(self, cell: Cell, record: dict[str, Any]) -> None: ...
    def failed(self, cell: Cell, reason: str) -> None: ...


class Pool:
    """Runs each cell in a process of its own, so that a cell that dies, however it dies, affects no other.

    Cells that may train as one (`population`) share a process; if that dies twice, each cell goes on alone.
    """

    def __init__(self, context: Any, workers: int, display: Display) -> None:
        self.context, self.workers, self.display = context, workers, display
        self.running: dict[Connection, tuple[Group, ForkServerProcess]] = {}
        self.cards: list[str] = []  # of the machine, where cells train on them
        self.card_of: dict[Connection, str | None] = {}  # one for each process while there are enough
        self.waiting: list[Group] = []  # in reverse: the next group is last
        self.answers: dict[Connection, Apart] = {}
        self.rulings: dict[str, str] = {}  # likeness -> why such cells train alone; "": they train as one
        self.died: set[tuple[str, ...]] = set()  # populations whose process has died once
        self.elsewhere: list[Cell] = []  # cells that other processes run
        self.looked = 0.0

    def run(self, cells: Sequence[Cell]) -> list[Failure]:
        """Run the cells and return the failures; KeyboardInterrupt: the running cells have saved first.

        A cell that another process runs is waited for, and run here if that process dies.
        """
        self.waiting, failures = [*groups(cells, self.workers)][::-1], []
        self.cards = cards.cards() if any(map(cards.on_gpu, cells)) else []
        with interrupts.later():
            try:
                while self.waiting or self.running or self.elsewhere:
                    failures += self._turn()
            finally:
                self._end()
        return failures

    def _turn(self) -> list[Failure]:
        interrupts.check()
        failures: list[Failure] = []
        while self.waiting and len(self.running) < self.workers:
            self._next(self.waiting.pop())
        for pipe in wait(list(self.running), timeout=0.5):
            failures += self._listen(pipe)  # pyright: ignore[reportArgumentType]
        if time.monotonic() - self.looked >= LOOK_EVERY_S:
            failures += self._look()
        return failures

    def _end(self) -> None:
        """End the cells that still run after an interrupt or an error, with time to save."""
        try:
            self.stop(SAVE_S)
        finally:  # a second Ctrl-C does not wait for the save; no file is half-written even so
            for group, process in self.running.values():
                process.kill()
                process.join()
                self._tidy(group)

    def _tidy(self, group: Group) -> None:
        for cell in group.cells:
            store.drop_halves(cell.folder)
            lease.forget(cell.folder)

    def stop(self, seconds: float) -> None:
        """Let every running cell save and end; those that have not within `seconds` are killed."""
        processes = [process for _, process in self.running.values()]
        until = time.monotonic() + seconds
        for process in processes:
            process.terminate()
        for process in processes:
            process.join(max(0.0, until - time.monotonic()))
            process.kill()

    def _next(self, group: Group) -> None:
        """Start the cells of the group that no other process runs; as single cells after such a ruling."""
        for cell in group.cells:
            if lease.holder(cell.folder):
                self._set_aside(cell)
        group = replace(group, cells=tuple(cell for cell in group.cells if cell not in self.elsewhere))
        if not group.cells:
            return
        ruled = self.rulings.get(group.likeness) if group.to_measure else None
        if ruled:
            self.waiting += [Group((cell,), ruled) for cell in reversed(group.cells)]
        else:
            self._start(replace(group, measured=group.measured or ruled is not None))

    def _start(self, group: Group) -> None:
        for cell in group.cells:  # an earlier attempt's error must not be taken for this one's
            (cell.folder / "error.txt").unlink(missing_ok=True)
        mine, theirs = self.context.Pipe(duplex=False)
        taken = [self.card_of[pipe] for pipe in self.running]
        card = cards.least_used(self.cards, taken) if cards.on_gpu(group.cells[0]) else None
        process = self.context.Process(
            target=_work, args=(group, theirs, _known(group.cells[0]), card), daemon=True
        )
        process.start()
        theirs.close()
        self.card_of[mine] = card
        self.running[mine] = group, process
        self.display.started(*group.cells)

    def _set_aside(self, cell: Cell) -> None:
        self.elsewhere.append(cell)
        self.display.started(cell)
        message = f"run by {lease.holder(cell.folder) or 'another process'}"
        self.display.progress(cell, Progress(0, 1, 0, None, None, message))

    def _look(self) -> list[Failure]:
        """Find the cells elsewhere that have ended, and queue those whose process has died."""
        self.looked, failures = time.monotonic(), []
        for cell in self.elsewhere[:]:
            if not store.is_done(cell.folder) and lease.holder(cell.folder):
                continue
            self.elsewhere.remove(cell)
            if store.is_done(cell.folder) or (cell.folder / "error.txt").exists():
                failures += self._ended(cell, 0)
            else:
                self.waiting += groups([cell], self.workers)
        return failures

    def _listen(self, pipe: Connection) -> list[Failure]:
        group, process = self.running[pipe]
        try:
            message = pipe.recv()
        except EOFError:  # the process has ended, one way or another
            del self.running[pipe]
            process.join()
            return self._group_ended(group, process.exitcode or 0, self.answers.pop(pipe, None))
        match message:
            case DiskFull():
                raise message
            case Apart():
                self.answers[pipe] = message
            case Together():
                self.rulings[group.likeness] = ""
            case member, progress:
                self.display.progress(group.cells[member], progress)
        return []

    def _group_ended(self, group: Group, code: int, answer: Apart | None) -> list[Failure]:
        if code == -signal.SIGTERM:
            time.sleep(1)  # the same SIGTERM may reach this process next, and then the cell has not failed
            interrupts.check()
        elif code and answer is None and not group.alone:
            answer = self._died(group, code)
        if answer is None:
            return [failure for cell in group.cells for failure in self._ended(cell, code, group)]
        if answer.ruling:
            self.rulings[group.likeness] = answer.why
        self.waiting += left(group, answer)[::-1]
        return [f for c in group.cells if store.is_done(c.folder) for f in self._ended(c, 0, group)]

    def _died(self, group: Group, code: int) -> Apart:
        """Answer a population's death: run it once more, as the cause may lie elsewhere; then each alone."""
        self._tidy(group)
        everyone = range(len(group.cells))
        if group.whole in self.died:
            return Apart(tuple((i,) for i in everyone), f"in a population {_death(code)}, twice")
        self.died.add(group.whole)
        return Apart((tuple(everyone),), "", continued=True)

    def _ended(self, cell: Cell, code: int, group: Group | None = None) -> list[Failure]:
        if store.is_done(cell.folder):
            self.display.finished(cell, store.read(cell.folder))
            return []
        if code == lease.BUSY:
            self._set_aside(cell)
            return []
        if not (cell.folder / "error.txt").exists():
            output = (group.cells[0] if group else cell).folder / OUTPUT
            printed = output.read_text(errors="replace")[-4000:] if output.exists() else ""
            store.fail(cell.folder, _death(code) + "\n" + printed)
        reason = store.error(cell.folder)
        self.display.failed(cell, reason)
        return [Failure(cell, reason)]


def _death(code: int) -> str:
    if code < 0:
        name = signal.Signals(-code).name
        return f"the process was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
    return f"the process ended with exit code {code} before it wrote a result"


def _known(cell: Cell) -> dict[str, Any]:
    """Return what a cell's process need not find out again: the machine, and the source of zoo's own parts.

    Zoo's parts were imported when the sweep began.  A user's module is imported when its cell starts, and its
    source is read then.
    """
    parts = source(cell.config)
    return machine() | ({"source": parts} if all(name.startswith("zoo.") for name in parts) else {})


def _work(group: Group, pipe: Connection, here: dict[str, Any], card: str | None = None) -> None:
    """Run the group, in a worker; output goes to its first cell's output.txt, deleted if all went well."""
    cards.see_only(card)
    interrupts.follow_driver()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])  # a SLURM job blocks it in the fork server
    output = group.cells[0].folder / OUTPUT
    try:
        with interrupts.attended():
            _print_to(output)
            _run(group, pipe, here)
    except DiskFull as full:
        pipe.send(full)
    except CellFailed:
        sys.exit(1)
    except lease.Busy:
        sys.exit(lease.BUSY)
    except Terminated:  # the cells are saved; the driver should see that SIGTERM ended the worker
        os.kill(os.getpid(), signal.SIGTERM)
    with suppress(FileNotFoundError):
        output.unlink()


def _run(group: Group, pipe: Connection, here: dict[str, Any]) -> None:
    if group.alone:
        alone = {"population": {"size": 1, "why_alone": group.why_alone}} if group.why_alone else {}
        run_cell(group.cells[0], lambda progress: pipe.send((0, progress)), here | alone)
        return
    from zoo.launch.run_population import run_population

    apart = run_population(group, pipe.send, here)
    if apart:
        pipe.send(apart)


def _print_to(output: Path) -> None:
    with room(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        with output.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
