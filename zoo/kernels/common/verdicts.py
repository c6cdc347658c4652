"""Verdicts on kernels on a card: right or wrong, and their seconds against those of the usual form.

A verdict holds for one card, the versions of torch, Triton and the package, the kernel's source, and the
widths and dtypes of the inputs.  Where any of these differs there is no verdict yet, and a process of its own
(proof.py) finds one, once for all cells of a machine.  Each verdict is a JSON file in
$XDG_CACHE_HOME/zoo/verdicts (~/.cache/zoo/verdicts), which is checked when read, and holds only data.

Nothing is proved on a CPU.  A kernel that cannot be proved for a reason other than itself (no memory left, a
card for one process alone) has no verdict: the usual form runs, and the next process tries again.
"""

import ast
import fcntl
import functools
import hashlib
import importlib.metadata
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from zoo.common import interrupts
from zoo.common.checks import one_line
from zoo.common.foreign import all_visible, visible
from zoo.kernels.common.agreement import requires_gradient
from zoo.kernels.common.available import MODULES
from zoo.kernels.common.private import cache_folder, make_private, read_file
from zoo.kernels.common.proof import Answer, Request

ROOT = Path(__file__).parents[3]
CHOOSING = ("zoo.kernels.choice", "zoo.kernels.common.available")  # these do not change what is computed
MOST_BYTES = 1 << 22  # of a file of verdicts; one takes about 700
LIMIT_S = 300  # for one kernel: Triton may compile a minute
START_S = 60  # for the process to start and to read its request
LOOK_S = 0.2
FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # ended by others


@dataclass(frozen=True)
class Key:
    """What a verdict depends on.  card: name and compute capability.  versions: of torch, Triton and the
    package.  source: a hash of the kernel's files and all zoo files that they import.  inputs: dtype and last
    dimension of each, and autocast.  usual: the form that would be replaced.  trained: with gradients.
    """

    card: str
    versions: str
    op: str
    kernel: str
    source: str
    inputs: str
    usual: str
    trained: bool

    @property
    def path(self) -> Path:
        """Return the file of a verdict; its name is a hash, so that no word of the key is part of it."""
        text = json.dumps(asdict(self), sort_keys=True)
        return cache_folder("verdicts") / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


@dataclass(frozen=True)
class Verdict:
    """The answer of a proof.  sizes: of the inputs.  when: in UTC."""

    key: Key
    answer: Answer
    sizes: str
    when: str

    @property
    def taken(self) -> bool:
        """Return whether kernels=auto takes the kernel: it is right, and faster."""
        return self.answer.end == "right" and self.speedup > 1

    @property
    def speedup(self) -> float:
        """Return the kernel's speed over that of the usual form; NaN where they were not timed."""
        ours, usual = self.answer.seconds, self.answer.usual_seconds
        return math.nan if ours is None or usual is None else usual / ours

    def __str__(self) -> str:
        answer = self.answer
        if answer.end != "right":
            return f"{answer.end}: {answer.why}"
        speed = "" if math.isnan(self.speedup) else f", {self.speedup:.2f} times {self.key.usual}'s speed"
        return f"right, error {answer.error:.1e} of {answer.bound:.1e}{speed}"


# ask --------------------------------------------------------------------------------------------------------

_known: dict[Key, Verdict | None] = {}


class Proved(Protocol):
    """The parts of an op that a proof reads."""

    name: str
    package: str


def verdict(op: Proved, kernel: str, usual: str, inputs: Sequence[Any]) -> Verdict | None:
    """Return the verdict on a kernel against the form `usual` on the inputs' card; None: there is none."""
    plain = [_first_member(x) for x in inputs]
    key = key_of(op, kernel, usual, plain)
    if key not in _known:
        capturing = torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
        if capturing or torch.compiler.is_compiling():  # now nothing may be copied
            return None
        _known[key] = read(key) or _prove_once(op, key, plain)
    return _known[key]


def verdicts_here() -> list[Verdict]:
    """Return the verdicts that this process has read or found."""
    return [one for one in _known.values() if one is not None]


def key_of(op: Proved, kernel: str, usual: str, inputs: Sequence[Any]) -> Key:
    """Return what a verdict on these inputs depends on."""
    device = str(inputs[0].device)
    return Key(
        card=card(device),
        versions=versions(kernel),
        op=op.name,
        kernel=kernel,
        source=" ".join(source(f"{op.package}.{file}") for file in (kernel, "reference")),
        inputs=_described(inputs),
        usual=usual,
        trained=torch.is_grad_enabled() and any(map(requires_gradient, inputs)),
    )


def _first_member(x: Any) -> Any:
    """Take the first member's tensor out of a population's stacked ones."""
    functorch = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]
    while isinstance(x, Tensor) and functorch.is_functorch_wrapped_tensor(x):
        place, inner = functorch.maybe_get_bdim(x), functorch.get_unwrapped(x)
        x = inner.select(place, 0) if place >= 0 else inner
    return x


def _described(inputs: Sequence[Any]) -> str:
    """Name the dtype and last dimension of each tensor, and autocast's dtype where it is on."""
    tensors = [x for x in inputs if isinstance(x, Tensor)]
    words = [f"{_word(x.dtype)}:{x.shape[-1] if x.ndim > 1 else ''}" for x in tensors]
    dtype = _autocast(inputs)
    return " ".join([*words, f"autocast:{_word(dtype)}"] if dtype else words)


def _autocast(inputs: Sequence[Any]) -> torch.dtype | None:
    device = inputs[0].device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@functools.cache
def card(device: str) -> str:
    """Return the card's name and compute capability."""
    if not device.startswith("cuda"):
        return device
    major, minor = torch.cuda.get_device_capability(device)
    return f"{torch.cuda.get_device_name(device)} sm_{major}{minor}"


@functools.cache
def versions(kernel: str) -> str:
    """Return the versions of torch, of Triton, and of the package whose kernel it is."""
    of = {"torch": torch.__version__, "triton": _version("triton")}
    if kernel in MODULES:
        of[kernel] = _version(MODULES[kernel])
    return " ".join(f"{name}={version}" for name, version in of.items())


def _version(module: str) -> str:
    names = importlib.metadata.packages_distributions().get(module, [])
    return importlib.metadata.version(names[0]) if names else "none"


@functools.cache
def source(module: str) -> str:
    """Return a hash of the code of a zoo module and of all zoo modules that it imports, however deep."""
    texts: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = ROOT.joinpath(*name.split(".")).with_suffix(".py")  # no __init__, which calls the kernel
        if name not in texts and name not in CHOOSING and path.is_file():
            tree = ast.parse(path.read_bytes())
            waiting += _imports(tree)
            texts[name] = _code(tree)
    return hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()[:16]


def _imports(tree: ast.Module) -> list[str]:
    nodes = [(f"{node.module}", node.names) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = [(module, names) for module, names in nodes if f"{module}.".startswith("zoo.")]
    return [name for module, names in ours for name in (module, *(f"{module}.{x.name}" for x in names))]


def _code(tree: ast.Module) -> str:
    """Return the code without comments and docstrings, on which no result depends."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


# prove ------------------------------------------------------------------------------------------------------


def _prove_once(op: Proved, key: Key, inputs: Sequence[Any]) -> Verdict | None:
    """Prove the kernel in one process of the machine; the others wait for it and read its verdict."""
    with _in_turn() as ours:
        return (read(key) or prove(op, key, inputs)) if ours else None


@contextmanager
def _in_turn() -> Iterator[bool]:
    """Hold the machine's lock, because kernels timed together on one card are timed wrongly.  Yield False if
    this process is to end.  Where no file can be locked, every process proves."""
    try:
        make_private(cache_folder("verdicts"))
        file = (cache_folder("verdicts") / "lock").open("a")
    except OSError:
        yield True
        return
    with file:
        yield _locked(file.fileno())


def _locked(file: int) -> bool:
    while not interrupts.requested():
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOOK_S)
        except OSError:  # a file system without locks
            return True
        else:
            return True
    return False


def prove(op: Proved, key: Key, inputs: Sequence[Any], limit: int = LIMIT_S) -> Verdict | None:
    """Compare the kernel with its definition now, and store the verdict; None: it cannot be tried."""
    _warn(f"{key.op}: {key.kernel} is tried on {key.card}, once; compiling and tuning may take minutes")
    answer = _answer(op, key, inputs, limit)
    if not answer.end:
        _warn(f"{key.op}: {key.kernel} cannot be tried on {key.card}: {answer.why}")
        return None
    sizes = " ".join("x".join(map(str, x.shape)) for x in inputs if isinstance(x, Tensor))
    new = Verdict(key, answer, sizes, datetime.now(UTC).isoformat(timespec="seconds"))
    _warn(f"{key.op}: {key.kernel} on {key.card} is {new}")
    try:
        write(new)
    except OSError as error:
        _warn_not_stored(error.strerror or one_line(error))
    return new


def _answer(op: Proved, key: Key, inputs: Sequence[Any], limit: int) -> Answer:
    given = [x.detach() if isinstance(x, Tensor) else x for x in inputs]
    trained = [key.trained and requires_gradient(x) for x in inputs]
    with tempfile.TemporaryDirectory(prefix="zoo-proof-") as name:
        request, answer, log = (Path(name) / file for file in ("request.pt", "answer.json", "log.txt"))
        message = Request(op.package, key.kernel, key.usual, given, _autocast(inputs), limit, trained)
        torch.save(message, request)
        words = [sys.executable, "-m", "zoo.kernels.common.proof", str(request), str(answer)]
        code = _exit_code(words, log, limit)
        if answer.exists():
            return Answer(**json.loads(answer.read_text()))
        return _answer_of_dead(code, log, limit)


def _exit_code(words: list[str], log: Path, limit: int) -> int | None:
    """Return the exit code of a process that Ctrl-C does not reach; None: stopped, as this one is to end."""
    with log.open("w") as file:
        process = subprocess.Popen(
            words, stdout=file, stderr=file, stdin=subprocess.DEVNULL, start_new_session=True
        )
        until = time.monotonic() + limit + START_S
        try:
            while time.monotonic() < until:
                if interrupts.requested():
                    return None
                with suppress(subprocess.TimeoutExpired):
                    return process.wait(LOOK_S)
            return -signal.SIGALRM
        finally:
            process.kill()
            process.wait()


def _answer_of_dead(code: int | None, log: Path, limit: int) -> Answer:
    """Return the answer for a process that wrote none, from its exit code and the last line of its log."""
    if code is None or -code in FROM_OUTSIDE:
        return Answer("", "the proof was stopped")
    if code == -signal.SIGALRM:
        return Answer("hangs", f"no end after {limit} s")
    last = (log.read_text(errors="replace").strip().splitlines() or [""])[-1][:200]
    if code > 0:  # Python ended it: before the kernel ran, or because the kernel lost the card
        return Answer("crashes" if "CUDA error" in last else "", last)
    return Answer("crashes", f"{signal.Signals(-code).name} {last}".strip())


@functools.cache
def _warn_not_stored(why: str) -> None:
    """Warn, once a process, that verdicts cannot be stored."""
    _warn(
        f"verdicts on kernels cannot be stored ({why}), and each process finds its own: "
        "name a folder that you alone can write with XDG_CACHE_HOME."
    )


def _warn(text: str) -> None:
    print(f"zoo: {visible(text)}", file=sys.stderr, flush=True)


# remember ---------------------------------------------------------------------------------------------------


def read(key: Key) -> Verdict | None:
    """Return this user's stored verdict for the key; None: there is none that can be trusted."""
    try:
        make_private(cache_folder("verdicts"))
        stored = _read(_ONE, key.path, private=True)
    except (OSError, ValueError):
        return None
    return stored if stored.key == key else None


def write(verdict: Verdict) -> None:
    """Store a verdict atomically: a reader finds all of it or nothing.  OSError: it cannot be written."""
    path = verdict.key.path
    make_private(path.parent)
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")
    try:
        part.write_text(json.dumps(asdict(verdict), indent=1) + "\n")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def all_stored() -> list[Verdict]:
    """Return all of this user's verdicts that can be read."""
    verdicts = []
    with suppress(OSError):
        make_private(cache_folder("verdicts"))
        for path in cache_folder("verdicts").glob("*.json"):
            with suppress(OSError, ValueError):
                verdicts.append(_read(_ONE, path, private=True))
    return sorted(verdicts, key=lambda one: (one.key.op, one.key.kernel, one.when))


def read_list(path: Path) -> list[Verdict]:
    """Return the verdicts that a file from elsewhere holds; ValueError: it holds none."""
    try:
        return [_ONE.validate_python(all_visible(asdict(one))) for one in _read(_LIST, path, private=False)]
    except (OSError, ValueError) as error:
        raise ValueError(f"--verdicts (={visible(str(path))}) cannot be read: {one_line(error)}.") from None


def write_list(path: Path, verdicts: Iterable[Verdict]) -> None:
    """Write verdicts to a file that `read_list` reads."""
    path.write_text(json.dumps([asdict(verdict) for verdict in verdicts], indent=1) + "\n")


_ONE, _LIST = TypeAdapter(Verdict), TypeAdapter(list[Verdict])
_Read = TypeVar("_Read")


def _read(adapter: TypeAdapter[_Read], path: Path, private: bool) -> _Read:
    """Return the adapter's type from a JSON file.  ValueError, in one line: the file holds something else."""
    try:
        return adapter.validate_json(read_file(path, MOST_BYTES, private), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
