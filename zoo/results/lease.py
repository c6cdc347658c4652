"""Claim a cell for one process, by a file that the process makes, touches while it lives, and removes.

A lock of the operating system may not hold between machines on a network file system, and may stay forever
when a machine dies.  A claim needs little: link(2) makes a name only once, and a file's time is the server's.
A claim ends with its process on the same machine, with its SLURM job on any machine, and otherwise when it
has not been touched for EXPIRES seconds, so that no dead process holds a cell for long.  A time in the future
counts as the time when it is first seen.
"""

import functools
import json
import os
import platform
import re
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from stat import S_ISREG

from zoo.common.foreign import visible

NAME = "claim.json"
BEAT = 15.0  # seconds between two signs of life
EXPIRES = 120.0  # seconds of silence; more than a beat and the minute for which NFS may show an old time
TRIES = 20
LONGEST = 200  # characters that are shown of a holder
LARGEST = 4096  # bytes of a claim
BUSY = 75  # exit code of a process that lost its claim (EX_TEMPFAIL)


class Busy(ValueError):
    """Another process holds the cell."""


@dataclass(frozen=True)
class Holder:
    """The process behind a claim.

    machine: host, boot and process namespace: within these, a pid tells whether its process lives.
    started: of the process, in clock ticks since boot, because pids are reused.
    job: SLURM's id of the job, which a requeue keeps.
    """

    token: str
    host: str
    machine: str
    pid: int
    started: int | None
    job: str | None
    since: float

    def __str__(self) -> str:
        words = f"process {self.pid} of {self.host}" + (f" (SLURM job {self.job})" if self.job else "")
        return visible(words[:LONGEST])


UNREADABLE = Holder("unreadable", "?", "?", 0, None, None, 0.0)


def holder(folder: Path) -> Holder | None:
    """Return the living holder of `folder`; None: nobody, or a process that is dead or long silent."""
    claim = _read(folder)
    return claim if claim and _lives(claim, _silence(folder / NAME)) else None


def left_behind(folder: Path) -> Holder | None:
    """Return the dead holder that left `folder` unfinished; None: there is none."""
    claim = _read(folder)
    return claim if claim and not _lives(claim, _silence(folder / NAME)) else None


def forget(folder: Path) -> None:
    """Remove the claim of a dead process; a living one's stays."""
    dead = left_behind(folder)
    if dead:
        _remove(folder, dead, time.time())


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Make `folder` and hold its claim inside the context.  Busy: another process holds it.

    A process whose claim was taken over (because it was suspended for minutes, say) exits at once: otherwise
    it would write among the other process's files.
    """
    mine = _myself()
    _acquire(folder, mine)
    # remove what processes left that were killed while they tried to claim the folder
    for path in folder.glob(".claim.*"):
        silence = _silence(path)
        trying = _read(folder, path.name) if path.suffix == ".part" else None
        if silence > EXPIRES or (trying and trying is not UNREADABLE and not _lives(trying, silence)):
            path.unlink(missing_ok=True)
    stop = threading.Event()
    threading.Thread(target=_beat, args=(folder, mine, stop), daemon=True).start()
    try:
        yield
    finally:
        stop.set()
        if _read(folder) == mine:
            (folder / NAME).unlink(missing_ok=True)


def _acquire(folder: Path, mine: Holder) -> None:
    part = folder / f".claim.{mine.token}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(asdict(mine)))
        now = part.stat().st_mtime
        for _ in range(TRIES):
            if _linked(part, folder / NAME):
                return
            other = _read(folder)
            if other and _lives(other, _silence(folder / NAME, now)):
                raise Busy(f"{folder} is being worked on by {other}: wait for it, or end it.")
            if other:
                _remove(folder, other, now)
            time.sleep(0.01)
    finally:
        part.unlink(missing_ok=True)
    raise Busy(f"{folder} is claimed by one process after another: wait for them, or end them.")


def _linked(part: Path, name: Path) -> bool:
    """Link `part` to `name`; return whether it worked, by the count of links, as NFS may lose the answer."""
    try:
        with suppress(FileExistsError):
            os.link(part, name)
        return part.stat().st_nlink == 2
    except FileNotFoundError:
        return False  # the holder of the folder has tidied it up


def _remove(folder: Path, dead: Holder, now: float) -> None:
    """Remove a dead claim; of all processes that try, one does: a file with the token's name is made once."""
    mark = folder / f".claim.{dead.token}.dead"
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        if _silence(mark, now) > EXPIRES:  # the process that made the mark has died
            mark.unlink(missing_ok=True)
        return
    try:
        if _read(folder) == dead:
            (folder / NAME).unlink(missing_ok=True)
    finally:
        mark.unlink(missing_ok=True)


def _beat(folder: Path, mine: Holder, stop: threading.Event) -> None:
    while not stop.wait(BEAT):
        try:
            claim = _read(folder)
            if claim == mine:
                os.utime(folder / NAME)
        except OSError:
            continue  # a full or absent file system: the next beat may succeed
        if claim != mine and not stop.is_set():
            print(f"{folder}: taken over by {claim or 'nobody'} after long silence; ending", file=sys.stderr)
            sys.stderr.flush()
            os._exit(BUSY)


def _read(folder: Path, name: str = NAME) -> Holder | None:
    """Return the claim; None: there is none.  UNREADABLE: the file is no claim that zoo writes."""
    path = folder / name
    try:
        if not S_ISREG(path.lstat().st_mode):
            return UNREADABLE  # reading a pipe or a device might never end
        with path.open() as file:
            claim = json.loads(file.read(LARGEST))
        return Holder(**claim) if re.fullmatch(r"[\w-]+", claim["token"]) else UNREADABLE
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, RecursionError):
        return UNREADABLE


def _silence(path: Path, now: float | None = None) -> float:
    """Return the seconds since the file was touched; below zero where its time is in the future.

    now: the file system's time, if known; else this machine's.
    """
    try:
        silence = (time.time() if now is None else now) - path.lstat().st_mtime
    except FileNotFoundError:
        return float("inf")
    if silence < -EXPIRES:
        _date(path)
    return silence


def _date(path: Path) -> None:
    """Touch a file whose time is in the future, since a clock was set back: its silence counts from now.

    Not where only this machine's clock is behind, by the file system's time.
    """
    probe = path.with_name(f".claim.{uuid.uuid4().hex}.part")
    with suppress(OSError):  # a folder that may only be read
        probe.touch()
        try:
            if path.lstat().st_mtime - probe.stat().st_mtime > EXPIRES:
                os.utime(path, follow_symlinks=False)
        finally:
            probe.unlink(missing_ok=True)


def _lives(one: Holder, silence: float) -> bool:
    if one.machine == _machine() and one.started is not None:
        return _started(one.pid) == one.started
    if one.job is not None and one.job == _job():
        return False  # the claim is this job's own from before its requeue: SLURM runs no job twice at once
    return silence < EXPIRES


def _myself() -> Holder:
    return Holder(
        token=uuid.uuid4().hex,
        host=platform.node(),
        machine=_machine(),
        pid=os.getpid(),
        started=_started(os.getpid()),
        job=_job(),
        since=time.time(),
    )


def _job() -> str | None:
    return os.environ.get("SLURM_JOB_ID")


@functools.cache
def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{platform.node()} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:  # not Linux: pids tell nothing, only silence does
        return uuid.uuid4().hex


def _started(pid: int) -> int | None:
    """Return when the process began, in clock ticks since boot; None: it has ended, or there is no /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # after the process name, which may hold any character
    return None if fields[0] in "ZX" else int(fields[19])
