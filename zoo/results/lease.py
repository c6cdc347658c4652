"""Claim a cell for one process: a file that it makes, keeps fresh while it lives, and takes away.

A lock of the operating system need not hold from one machine of a network file system to the next, and stays
for good when a machine dies.  A claim asks for little: link(2) makes a name once, and a file's time is the
server's.  It ends with its process on the same machine, with the SLURM job on any, and otherwise when it
has been silent for EXPIRES seconds, so that nothing that died holds a cell for long.  A sign of life that is
dated in the future counts as given when it is first seen.
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
EXPIRES = 120.0  # of silence; more than a beat and the minute for which NFS may show an old time
TRIES = 20
LONGEST = 200  # characters that are said of a holder
LARGEST = 4096  # bytes of a claim
BUSY = 75  # exit code of a process that lost its claim (EX_TEMPFAIL)


class Busy(ValueError):
    """Another process has the cell."""


@dataclass(frozen=True)
class Holder:
    """The process behind a claim.

    machine: host, boot and process namespace: within one, a pid says whether its process lives.
    started: of the process, in clock ticks since boot, because pids come again.
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


def holder(folder: Path, now: float | None = None) -> Holder | None:
    """Return the holder of `folder`; None: nobody, or one who is dead or has been silent for too long.

    now: the file system's time, where it is known; else this machine's.
    """
    claim = _read(folder)
    return claim if claim and _lives(claim, _silence(folder / NAME, now)) else None


def left_behind(folder: Path, now: float | None = None) -> Holder | None:
    """Return the holder that left `folder` unfinished and is gone; None: there is none."""
    claim = _read(folder)
    return claim if claim and not _lives(claim, _silence(folder / NAME, now)) else None


def forget(folder: Path) -> None:
    """Take away the claim of one who is gone; what is held stays."""
    dead = left_behind(folder)
    if dead:
        _remove(folder, dead, time.time())


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Make `folder` and work in it alone.  Busy: another process does.

    A process whose claim was taken over (it was suspended for minutes, say) ends on the spot: what it writes
    from then on would lie among another's files.
    """
    mine = _myself()
    _acquire(folder, mine)
    # take away what those left who were killed while they tried
    for path in folder.glob(".claim.*"):
        silence = _silence(path, None)
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
    """Link `part` to `name`; return whether it worked, by the count of links, as an answer may be lost."""
    try:
        with suppress(FileExistsError):
            os.link(part, name)
        return part.stat().st_nlink == 2
    except FileNotFoundError:
        return False  # whoever has the folder has tidied it up


def _remove(folder: Path, dead: Holder, now: float) -> None:
    """Take a dead claim away; of all who try, one does.  A name that carries its token can be made once."""
    mark = folder / f".claim.{dead.token}.dead"
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        if _silence(mark, now) > EXPIRES:  # whoever made it died in between
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
            continue  # a full or absent file system: the next beat may do
        if claim != mine and not stop.is_set():
            print(
                f"{folder}: taken over by {claim or 'nobody'} after a long silence; ending", file=sys.stderr
            )
            sys.stderr.flush()
            os._exit(BUSY)


def _read(folder: Path, name: str = NAME) -> Holder | None:
    """None: no claim.  UNREADABLE: what lies there is no claim that this command writes."""
    path = folder / name
    try:
        if not S_ISREG(path.lstat().st_mode):
            return UNREADABLE  # a pipe or a device would be read for ever
        with path.open() as file:
            claim = json.loads(file.read(LARGEST))
        return Holder(**claim) if re.fullmatch(r"[\w-]+", claim["token"]) else UNREADABLE
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, RecursionError):
        return UNREADABLE


def _silence(path: Path, now: float | None) -> float:
    """Seconds since the last sign of life; below zero where that is dated later than now."""
    try:
        silence = (time.time() if now is None else now) - path.lstat().st_mtime
    except FileNotFoundError:
        return float("inf")
    if silence < -EXPIRES:
        _date(path)
    return silence


def _date(path: Path) -> None:
    """A clock was set back, and a dead holder would be silent only once it is there again: count from now.

    Not where the clock that is behind is this machine's own, and the file system knows better.
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
        return False  # this very job before it was requeued; SLURM starts none twice
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
    except OSError:  # no Linux: pids say nothing, silence does
        return uuid.uuid4().hex


def _started(pid: int) -> int | None:
    """When the process began; None where there is none, or no /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # behind the name, which may hold anything
    return None if fields[0] in "ZX" else int(fields[19])
