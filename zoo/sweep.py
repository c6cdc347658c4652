"""Many cells on one machine: all checked before any starts, each in a process of its own, none done twice."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Protocol

from zoo import claim, manifest, results
from zoo.attempt import CellFailed, Failure, machine, run_cell
from zoo.cell import Cell
from zoo.config import Composer
from zoo.disk import DiskFull, room
from zoo.display import SweepDisplay
from zoo.outcome import Progress, Terminated
from zoo.validate import Validator

OUTPUT = "output.txt"  # what a cell's process prints; gone when all went well
LOOK_EVERY_S = 2.0  # at the cells that other processes run


class SweepFailed(Exception):
    """Some cells failed; the display has said which."""


def run_sweep(composer: Composer, batch: Iterable[Sequence[str]], n_workers: int | str) -> None:
    """Run every cell of the batch that is not done, n_workers at once, and print how they went.

    ValueError before anything starts, one line for each cell that cannot run.  SweepFailed at the end if one
    failed, DiskFull at once.  The same call again runs what is missing.
    """
    context = start_forkserver()  # it imports while the cells are checked
    cells = plan(composer, batch)
    workers = count(n_workers, cells)
    todo = unfinished(cells)
    if todo:
        manifest.write(cells)
    how = f"{workers} at once"
    with SweepDisplay(total=len(cells), done=len(cells) - len(todo), how=how) as display:
        failures = Pool(context, workers, display).run(todo)
    done = [results.read(cell.folder) for cell in cells if results.is_done(cell.folder)]
    display.report(done, failures)
    if failures:
        raise SweepFailed


def start_forkserver() -> Any:
    """Where a Pool's processes come from: torch and Lightning are imported once, not once a cell."""
    context = multiprocessing.get_context("forkserver")
    # each process runs the main module again, so what zoo.run imports is there; itself it must not be
    context.set_forkserver_preload(["zoo.training", "zoo.sweep", "zoo.command"])
    forkserver.ensure_running()
    return context


def plan(composer: Composer, batch: Iterable[Sequence[str]], here: bool = True) -> list[Cell]:
    """The distinct cells of a batch, all checked, and their results folder.  ValueError lists every mistake.

    here: on this machine, which then must have the device that they ask for.
    """
    cells = checked_cells(composer, batch, here)
    for folder in {cell.folder.parent for cell in cells}:
        results.check_writable(folder)
    return cells


def checked_cells(composer: Composer, batch: Iterable[Sequence[str]], here: bool) -> list[Cell]:
    """`plan` without touching the disk."""
    cells: dict[str, Cell] = {}
    wrong: dict[str, list[str]] = {}
    validator = Validator()
    for overrides in batch:
        try:
            cell = composer.cell(overrides)
            mistakes = checked(cell, validator, here)
        except ValueError as error:
            mistakes = str(error).splitlines()
        else:
            cells.setdefault(cell.run_id, cell)
        for mistake in mistakes:
            wrong.setdefault(mistake, []).append(" ".join(overrides))
    if wrong:
        raise ValueError("\n".join(f"{mistake} [{_cells(which)}]" for mistake, which in wrong.items()))
    return list(cells.values())


def checked(cell: Cell, validator: Validator, here: bool = True) -> list[str]:
    """The problems of a cell, of this machine with it, and of what lies in its folder."""
    found = validator.problems(cell) or (_device(cell) if here else [])
    if not found:
        results.check_checkpoint(cell.folder)
        if results.is_done(cell.folder):
            results.read(cell.folder)
    return found


def _device(cell: Cell) -> list[str]:
    from torch import cuda

    from zoo.kernels.choice import lacking

    if cell.config["trainer"]["accelerator"] == "gpu" and not cuda.is_available():
        return ["trainer.accelerator (=gpu) needs a CUDA device, and torch sees none: use trainer=cpu."]
    missing = lacking(cell.config["kernels"])
    return [] if missing is None else [missing]


def _cells(which: list[str]) -> str:
    return which[0] if len(which) == 1 else f"{len(which)} cells; the first: {which[0]}"


def unfinished(cells: Iterable[Cell]) -> list[Cell]:
    """Those without a record.  What a kill at the very end left beside a record is cleared away."""
    todo: list[Cell] = []
    for cell in cells:
        if results.is_done(cell.folder):
            _tidy(cell.folder)
        else:
            todo.append(cell)
    return todo


def _tidy(folder: Path) -> None:
    left = {OUTPUT, "error.txt", *(name for name in os.listdir(folder) if name.endswith(".part"))}
    if claim.holder(folder):
        return
    claim.forget(folder)
    for name in left:
        (folder / name).unlink(missing_ok=True)


def count(n_workers: int | str, cells: Sequence[Cell]) -> int:
    """How many cells run at once."""
    if n_workers == "auto":
        threads = max((cell.config["trainer"]["threads"] for cell in cells), default=1)
        return max(1, len(os.sched_getaffinity(0)) // threads)
    if type(n_workers) is not int or n_workers < 1:
        raise ValueError(f"hydra.launcher.n_workers (={n_workers}) must be a positive integer or auto.")
    return n_workers


class Display(Protocol):
    """Who is told how the cells of a pool do."""

    def started(self, cell: Cell) -> None: ...
    def progress(self, cell: Cell, at: Progress) -> None: ...
    def finished(self, cell: Cell, record: dict[str, Any]) -> None: ...
    def failed(self, cell: Cell, reason: str) -> None: ...


class Pool:
    """One process a cell, so that a cell that dies, however it dies, takes nothing with it."""

    def __init__(self, context: Any, workers: int, display: Display) -> None:
        self.context, self.workers, self.display = context, workers, display
        self.running: dict[Connection, tuple[Cell, ForkServerProcess]] = {}
        self.elsewhere: list[Cell] = []  # other processes are at work on them
        self.looked = 0.0

    def run(self, cells: Sequence[Cell]) -> list[Failure]:
        """Run the cells; one that another process runs is waited for, and run here should that one vanish."""
        waiting, failures = list(reversed(cells)), []
        try:
            while waiting or self.running or self.elsewhere:
                while waiting and len(self.running) < self.workers:
                    self._start(waiting.pop())
                for pipe in wait(list(self.running), timeout=0.5):
                    failures += self._listen(pipe)  # pyright: ignore[reportArgumentType]
                if time.monotonic() - self.looked >= LOOK_EVERY_S:
                    failures += self._look(waiting)
        finally:
            for cell, process in self.running.values():
                process.kill()  # nothing ever stands half-written, so there is nothing to wait for
                process.join()
                results.drop_halves(cell.folder)
                claim.forget(cell.folder)
        return failures

    def stop(self, seconds: float) -> None:
        """Let every running cell save and end; those that have not within `seconds` are killed."""
        processes = [process for _, process in self.running.values()]
        until = time.monotonic() + seconds
        for process in processes:
            process.terminate()
        for process in processes:
            process.join(max(0.0, until - time.monotonic()))
            process.kill()

    def _start(self, cell: Cell) -> None:
        if claim.holder(cell.folder):
            self._set_aside(cell)
            return
        (cell.folder / "error.txt").unlink(missing_ok=True)  # of an earlier attempt: not this one's reason
        mine, theirs = self.context.Pipe(duplex=False)
        process = self.context.Process(target=_work, args=(cell, theirs, machine()), daemon=True)
        process.start()
        theirs.close()
        self.running[mine] = cell, process
        self.display.started(cell)

    def _set_aside(self, cell: Cell) -> None:
        self.elsewhere.append(cell)
        self.display.started(cell)
        message = f"run by {claim.holder(cell.folder) or 'another process'}"
        self.display.progress(cell, Progress(0, 1, 0, None, None, message))

    def _look(self, waiting: list[Cell]) -> list[Failure]:
        """Which of the cells elsewhere have ended; one that was left behind joins those that wait."""
        self.looked, failures = time.monotonic(), []
        for cell in self.elsewhere[:]:
            if not results.is_done(cell.folder) and claim.holder(cell.folder):
                continue
            self.elsewhere.remove(cell)
            if results.is_done(cell.folder) or (cell.folder / "error.txt").exists():
                failures += self._ended(cell, 0)
            else:
                waiting.append(cell)
        return failures

    def _listen(self, pipe: Connection) -> list[Failure]:
        cell, process = self.running[pipe]
        try:
            message = pipe.recv()
        except EOFError:  # the process has ended, one way or another
            del self.running[pipe]
            process.join()
            return self._ended(cell, process.exitcode or 0)
        if isinstance(message, DiskFull):
            raise message
        self.display.progress(cell, message)
        return []

    def _ended(self, cell: Cell, code: int) -> list[Failure]:
        if results.is_done(cell.folder):
            self.display.finished(cell, results.read(cell.folder))
            return []
        if code == claim.BUSY:
            self._set_aside(cell)
            return []
        if code == -signal.SIGTERM:
            time.sleep(1)  # whoever ended it may be about to end us all: then nothing has failed
        if not (cell.folder / "error.txt").exists():
            results.fail(cell.folder, _death(code) + "\n" + _output(cell.folder))
        reason = results.error(cell.folder)
        self.display.failed(cell, reason)
        return [Failure(cell, reason)]


def _death(code: int) -> str:
    if code < 0:
        name = signal.Signals(-code).name
        return f"the process was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
    return f"the process ended with exit code {code} before it wrote a result"


def _output(folder: Path) -> str:
    path = folder / OUTPUT
    return path.read_text(errors="replace")[-4000:] if path.exists() else ""


def _work(cell: Cell, pipe: Connection, here: dict[str, Any]) -> None:
    """In the worker: run one cell; what it prints lies in output.txt unless all went well."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's, which then ends this process
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])  # a SLURM job keeps it from the fork server
    threading.Thread(target=_end_with_driver, daemon=True).start()
    output = cell.folder / OUTPUT
    try:
        _print_to(output)
        run_cell(cell, pipe.send, here)
    except DiskFull as full:
        pipe.send(full)
    except CellFailed:
        sys.exit(1)
    except claim.Busy:
        sys.exit(claim.BUSY)
    except Terminated:  # saved; the driver should see what it was
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
    with suppress(FileNotFoundError):
        output.unlink()


def _print_to(output: Path) -> None:
    with room(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        with output.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)


def _end_with_driver() -> None:
    """Leave when the driver is gone: an orphan would write beside the next attempt."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
