"""Cells in processes of their own, so many at once; a cell that dies takes nothing with it."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Protocol

from zoo import claim, results
from zoo.attempt import CellFailed, Failure, machine, run_cell
from zoo.cell import Cell
from zoo.disk import DiskFull, room
from zoo.outcome import Progress, Terminated

OUTPUT = "output.txt"  # what a cell's process prints; gone when all went well
LOOK_EVERY_S = 2.0  # at the cells that other processes run


def start_forkserver() -> Any:
    """Where a Pool's processes come from: torch and Lightning are imported once, not once a cell."""
    context = multiprocessing.get_context("forkserver")
    # each process runs the main module again, so what zoo.run imports is there; itself it must not be
    context.set_forkserver_preload(["zoo.training", "zoo.sweep", "zoo.command"])
    forkserver.ensure_running()
    return context


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
