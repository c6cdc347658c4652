"""Commands one after another, each a process with a time limit, its words, its end and its output kept."""

import csv
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

GRACE_S = 20.0  # between being asked to stop and being stopped; a sweep writes its checkpoints then
LEAST_S = 5.0  # with less time left nothing is begun


@dataclass(frozen=True)
class Place:
    """Where a run happens, how large, and where its tables go.  minutes: that a part may take."""

    device: str
    small: bool
    out: Path
    minutes: float = 9.0

    @property
    def trainer(self) -> str:
        """The word that puts a cell there."""
        return "trainer=gpu" if self.device == "cuda" else "trainer=cpu"

    def folder(self, part: str) -> Path:
        return self.out / part


@dataclass(frozen=True)
class Command:
    """name: of its log.  words: after `python -m`.  share: of the time that is left, at most.
    may_stop: it is asked to stop when its time is over, and that is no failure.
    """

    name: str
    words: list[str]
    share: float = 1.0
    may_stop: bool = False


@dataclass(frozen=True)
class Done:
    part: str
    name: str
    seconds: float
    code: int
    note: str
    command: str


@dataclass(frozen=True)
class Part:
    """after: makes the part's tables from what its commands left."""

    commands: Callable[[Place], Iterable[Command]]
    after: Callable[[Place], None] = lambda place: None


def run(name: str, part: Part, place: Place, deadline: float) -> int:
    """How many commands failed."""
    place.folder(name).mkdir(parents=True, exist_ok=True)
    failed = 0
    for command in part.commands(place):
        left = deadline - time.monotonic()
        done = _one(name, command, place, min(left, max(LEAST_S, command.share * left)))
        note(done, place)
        failed += done.code != 0
        print(f"{name} {command.name}: {done.note or 'done'}, {done.seconds:.0f} s", flush=True)
    part.after(place)
    return failed


def _one(part: str, command: Command, place: Place, limit: float) -> Done:
    words = [sys.executable, "-m", *command.words]
    shown = shlex.join(["python", "-m", *command.words])
    began = time.monotonic()
    if limit < LEAST_S:
        return Done(part, command.name, 0.0, 1, "not begun: no time was left", shown)
    with (place.folder(part) / f"{command.name}.log").open("w") as log:
        process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT)
        code, stopped = _waited(process, limit)
    seconds = time.monotonic() - began
    if stopped and command.may_stop:
        return Done(part, command.name, seconds, 0, "stopped when its time was over", shown)
    said = "stopped when its time was over" if stopped else f"exit code {code}" if code else ""
    return Done(part, command.name, seconds, code, said, shown)


def _waited(process: subprocess.Popen[bytes], limit: float) -> tuple[int, bool]:
    """Its exit code, and whether it had to be stopped: first by SIGINT, at which pytest writes its report."""
    try:
        return process.wait(limit), False
    except subprocess.TimeoutExpired:
        pass
    for kind in (signal.SIGINT, signal.SIGTERM):
        process.send_signal(kind)
        with suppress(subprocess.TimeoutExpired):
            return process.wait(GRACE_S / 2) or 1, True
    process.kill()
    return process.wait() or 1, True


def note(done: Done, place: Place) -> None:
    """In commands.csv: the last run of each command."""
    path = place.out / "commands.csv"
    rows = [row for row in read_csv(path) if (row["part"], row["name"]) != (done.part, done.name)]
    rows.append({key: str(value) for key, value in vars(done).items()})
    write_csv(path, rows)


def read_csv(path: Path) -> list[dict[str, str]]:
    """Nothing where there is no such file."""
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write_csv(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
