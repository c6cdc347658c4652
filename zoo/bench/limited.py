"""Commands one after another, each a process with a time limit, whose end and output are recorded."""

import csv
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

GRACE_S = 20.0  # between being asked to stop and being killed; a sweep writes its checkpoints then
LEAST_S = 5.0  # with less time left nothing is started
STOPPED = "stopped when its time was over"


@dataclass(frozen=True)
class Command:
    """name: of its log.  words: the whole command line.  share: of the time that is left, at most.
    may_stop: being stopped when its time is over is no failure.
    """

    name: str
    words: list[str]
    share: float = 1.0
    may_stop: bool = False


@dataclass(frozen=True)
class Result:
    """A row of commands.csv: how a command ended."""

    part: str
    name: str
    seconds: float
    code: int
    note: str
    command: str


def run(part: str, commands: Iterable[Command], out: Path, deadline: float) -> int:
    """Run the commands, with logs in out/part and rows in out/commands.csv; return how many failed."""
    (out / part).mkdir(parents=True, exist_ok=True)
    failed = 0
    for command in commands:
        left = deadline - time.monotonic()
        result = _run_one(part, command, out, min(left, max(LEAST_S, command.share * left)))
        _record(result, out / "commands.csv")
        failed += result.code != 0
        print(f"{part} {command.name}: {result.note or 'done'}, {result.seconds:.0f} s", flush=True)
    return failed


def _run_one(part: str, command: Command, out: Path, limit: float) -> Result:
    shown, began = shlex.join(command.words), time.monotonic()
    if limit < LEAST_S:
        return Result(part, command.name, 0.0, 1, "not started: no time was left", shown)
    with (out / part / f"{command.name}.log").open("w") as log:
        process = subprocess.Popen(
            command.words, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code, stopped = _wait(process, limit)
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    code = 0 if stopped and command.may_stop else code
    note = STOPPED if stopped else f"exit code {code}" if code else ""
    return Result(part, command.name, time.monotonic() - began, code, note, shown)


def _wait(process: subprocess.Popen[bytes], limit: float) -> tuple[int, bool]:
    """Return its exit code, and whether it had to be stopped: by SIGINT first, at which pytest reports."""
    try:
        return process.wait(limit), False
    except subprocess.TimeoutExpired:
        pass
    for kind in (signal.SIGINT, signal.SIGTERM):
        process.send_signal(kind)
        with suppress(subprocess.TimeoutExpired):
            return process.wait(GRACE_S / 2) or 1, True
    os.killpg(process.pid, signal.SIGKILL)
    return process.wait() or 1, True


def _record(result: Result, path: Path) -> None:
    """Write the row in place of the command's last one."""
    key = (result.part, result.name)
    rows = [row for row in read_csv(path) if (row["part"], row["name"]) != key]
    write_csv(path, [*rows, {name: str(value) for name, value in asdict(result).items()}])


def read_csv(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table; none where there is no such file."""
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write_csv(path: Path, rows: list[dict[str, str]]) -> None:
    """Write rows that all have the columns of the first."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
