"""Commands one after another, each a process with a time limit, whose end and output are recorded."""

import csv
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

GRACE_S = 20.0  # between being asked to stop and being killed
LEAST_S = 5.0  # with less time left nothing is started
STOPPED = "stopped when its time was over"


@dataclass(frozen=True)
class Command:
    """A process to run.  name: of its log.  words: the whole command line.  share: of the time left, at most.
    may_stop: being stopped when its time is over is no failure.
    """

    name: str
    words: list[str]
    share: float = 1.0
    may_stop: bool = False


def run(part: str, commands: Iterable[Command], out: Path, deadline: float) -> int:
    """Run the commands, with logs in out/part and rows in out/commands.csv; return how many failed."""
    (out / part).mkdir(parents=True, exist_ok=True)
    table, failed = out / "commands.csv", 0
    for command in commands:
        began, left = time.monotonic(), deadline - time.monotonic()
        limit = min(left, max(LEAST_S, command.share * left))
        code, note = _run_one(command, out / part / f"{command.name}.log", limit)
        seconds = time.monotonic() - began
        row = {
            "part": part,
            "name": command.name,
            "seconds": f"{seconds:.1f}",
            "code": str(code),
            "note": note,
        }
        others = [one for one in read_csv(table) if (one["part"], one["name"]) != (part, command.name)]
        write_csv(table, [*others, row | {"command": shlex.join(command.words)}])
        failed += code != 0
        print(f"{part} {command.name}: {note or 'done'}, {seconds:.0f} s", flush=True)
    return failed


def _run_one(command: Command, log: Path, limit: float) -> tuple[int, str]:
    """Return the exit code, and what is to be noted of the end."""
    if limit < LEAST_S:
        return 1, "not started: no time was left"
    with log.open("w") as file:
        process = subprocess.Popen(
            command.words, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = process.wait(limit)
            return code, f"exit code {code}" if code else ""
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # at which pytest reports, and a sweep writes its checkpoints
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
            return 0 if command.may_stop else 1, STOPPED
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


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
