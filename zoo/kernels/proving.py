"""A kernel's verdict on this card: read, or found in a process of its own, once for all cells of a machine.

Nothing here runs on a CPU.  What cannot be proved for a reason that is not the kernel's (no memory left, a
card for one process alone) has no verdict: the usual form runs, and the next process tries again.
"""

import fcntl
import functools
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from zoo import interrupts
from zoo.kernels import verdicts
from zoo.kernels.proof_request import Answer, Request
from zoo.kernels.verdicts import Key, Verdict

LIMIT_S = 300  # for one kernel: Triton may compile a minute
BEFORE_S = 60  # for the process to start and to read what it is asked
LOOK_S = 0.2
NOT_ITS_OWN = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # somebody else ended it
_known: dict[Key, Verdict | None] = {}


class Proved(Protocol):
    """What an op tells of itself."""

    name: str
    package: str


def verdict(op: Proved, kernel: str, usual: str, inputs: Sequence[Any]) -> Verdict | None:
    """On the card that the inputs are on, in place of the form `usual`; None: it cannot be said."""
    plain = [_alone(x) for x in inputs]
    key = key_of(op, kernel, usual, plain)
    if key not in _known:
        if _recording():
            return None
        _known[key] = verdicts.read(key) or _once(op, key, plain)
    return _known[key]


def found() -> list[Verdict]:
    """This process's, read or found by it."""
    return [one for one in _known.values() if one is not None]


def key_of(op: Proved, kernel: str, usual: str, inputs: Sequence[Any]) -> Key:
    device = str(inputs[0].device)
    sources = [verdicts.source(f"{op.package}.{file}") for file in (kernel, "reference")]
    trained = torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in inputs)
    return Key(
        card=verdicts.card(device),
        versions=verdicts.versions(kernel),
        op=op.name,
        kernel=kernel,
        source=" ".join(sources),
        inputs=verdicts.described(inputs),
        usual=usual,
        trained=trained,
    )


def _alone(x: Any) -> Any:
    """The first member's, of a population's stacked ones."""
    functorch = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]
    while isinstance(x, Tensor) and functorch.is_functorch_wrapped_tensor(x):
        place, inner = functorch.maybe_get_bdim(x), functorch.get_unwrapped(x)
        x = inner.select(place, 0) if place >= 0 else inner
    return x


def _recording() -> bool:
    """Whether this call is traced or recorded: then nothing may be copied, and torch's form is as good."""
    return torch.compiler.is_compiling() or (
        torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
    )


def _once(op: Proved, key: Key, inputs: Sequence[Any]) -> Verdict | None:
    """One process of the machine proves; the others wait for it and read."""
    with _in_turn() as ours:
        if not ours:
            return None
        return verdicts.read(key) or prove(op, key, inputs)


def prove(op: Proved, key: Key, inputs: Sequence[Any], limit: int = LIMIT_S) -> Verdict | None:
    """Anew, and kept."""
    answer = _answer(op, key, inputs, limit)
    if not answer.end:
        _say(f"{key.op}: {key.kernel} cannot be tried on {key.card}: {answer.why}")
        return None
    when = datetime.now(UTC).isoformat(timespec="seconds")
    found = Verdict(key=key, sizes=verdicts.shapes(inputs), when=when, **vars(answer))
    _say(f"{key.op}: {key.kernel} on {key.card} is {found}")
    try:
        verdicts.write(found)
    except OSError as error:
        _unkept(str(verdicts.folder()), error.strerror or str(error))
    return found


def _answer(op: Proved, key: Key, inputs: Sequence[Any], limit: int) -> Answer:
    with tempfile.TemporaryDirectory(prefix="zoo-proof-") as name:
        asked, told, said = (Path(name) / file for file in ("request.pt", "answer.json", "said.txt"))
        given = [_own(x, key.trained) for x in inputs]
        device = inputs[0].device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
        torch.save(Request(op.package, key.kernel, key.usual, given, dtype, limit), asked)
        code = _run([sys.executable, "-m", "zoo.kernels.proof", str(asked), str(told)], said, limit)
        if told.exists():
            return Answer(**json.loads(told.read_text()))
        return _death(code, said, limit)


def _own(x: Any, trained: bool) -> Any:
    if not isinstance(x, Tensor):
        return x
    return x.detach().requires_grad_(trained and x.requires_grad)


def _run(words: list[str], said: Path, limit: int) -> int | None:
    """Its exit code; None: it was stopped, because this process is to end.  Ctrl-C does not reach it."""
    with said.open("w") as file:
        process = subprocess.Popen(
            words, stdout=file, stderr=file, stdin=subprocess.DEVNULL, start_new_session=True
        )
        until = time.monotonic() + limit + BEFORE_S
        try:
            while process.poll() is None and time.monotonic() < until and not interrupts.told():
                time.sleep(LOOK_S)
            late = None if interrupts.told() else -signal.SIGALRM
            return late if process.poll() is None else process.returncode
        finally:
            process.kill()
            process.wait()


def _death(code: int | None, said: Path, limit: int) -> Answer:
    """Of a process without an answer."""
    if code is None or -code in NOT_ITS_OWN:
        return Answer("", "the proof was stopped")
    if code == -signal.SIGALRM:
        return Answer("hangs", f"no end after {limit} s")
    lines = said.read_text(errors="replace").strip().splitlines()
    last = lines[-1][:200] if lines else ""
    if code > 0:  # Python's own end: before the kernel ran, or the card was lost with it
        return Answer("crashes" if "CUDA error" in last else "", last)
    return Answer("crashes", f"{signal.Signals(-code).name} {last}".strip())


@contextmanager
def _in_turn() -> Iterator[bool]:
    """Inside, no other process proves: what is timed at once on one card is timed wrongly.  False: this
    process is to end.  Where no file can be locked, all prove."""
    try:
        verdicts.folder().mkdir(parents=True, exist_ok=True)
        file = (verdicts.folder() / "lock").open("a")
    except OSError:
        yield True
        return
    with file:
        yield _locked(file.fileno())


def _locked(file: int) -> bool:
    while not interrupts.told():
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOOK_S)
        except OSError:  # a file system without locks
            return True
        else:
            return True
    return False


@functools.cache
def _unkept(folder: str, why: str) -> None:
    """Once a process."""
    _say(
        f"verdicts on kernels cannot be kept in {folder} ({why}), and each process finds its own: "
        "name a folder that can be written with XDG_CACHE_HOME."
    )


def _say(text: str) -> None:
    print(f"zoo: {text}", file=sys.stderr, flush=True)
