"""What a kernel was found to be on a card: right or wrong, and its seconds beside the usual form's.

A verdict is of one card, the versions of torch, Triton and the package, the kernel's source, and the widths
and dtypes of the inputs.  Where any of these differs there is no verdict.  One JSON file each, in
$XDG_CACHE_HOME/zoo/verdicts (~/.cache/zoo/verdicts).  What is read is checked, and is data.
"""

import ast
import functools
import hashlib
import importlib.metadata
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo.kernels.available import MODULES

ZOO = Path(__file__).parents[1]
ENDS = ("right", "wrong", "crashes", "hangs")
CHOOSING = ("zoo.kernels.choice", "zoo.kernels.available")  # what runs, and nothing of what it computes


@dataclass(frozen=True)
class Key:
    """card: name and compute capability.  versions: of torch, Triton and the package.  source: a hash of the
    kernel's files and all of ours that they import.  inputs: dtype and last dimension of each.  usual: the
    form in torch that it would replace.  trained: with its gradients."""

    card: str
    versions: str
    op: str
    kernel: str
    source: str
    inputs: str
    usual: str
    trained: bool

    @property
    def name(self) -> str:
        """Of the file."""
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]
        return f"{self.op}.{self.kernel}.{digest}.json"


@dataclass(frozen=True)
class Verdict:
    """end: one of ENDS; why: in words, where it is not right.  error, bound: of the output or gradient that
    is nearest to its bound, or farthest past it.  seconds, usual_seconds: of a call, with its gradients where
    they are trained.  sizes: that it was found at.  when: in UTC.
    """

    key: Key
    end: str
    why: str
    worst: str
    error: float
    bound: float
    seconds: float | None
    usual_seconds: float | None
    sizes: str
    when: str

    @property
    def taken(self) -> bool:
        """Whether kernels=auto takes the kernel: it is right, and faster."""
        timed = self.seconds is not None and self.usual_seconds is not None
        return self.end == "right" and timed and self.seconds < self.usual_seconds  # pyright: ignore

    def __str__(self) -> str:
        if self.end != "right":
            return f"{self.end}: {self.why}"
        if self.seconds is None or self.usual_seconds is None:
            return f"right, error {self.error:.1e} of {self.bound:.1e}"
        ratio = self.usual_seconds / self.seconds
        return (
            f"right, error {self.error:.1e} of {self.bound:.1e}, {ratio:.2f} times {self.key.usual}'s speed"
        )


def described(inputs: Sequence[Any]) -> str:
    """The dtype and last dimension of each tensor, and numbers as such; autocast, where it is on."""
    words = [
        f"{_dtype(x.dtype)}:{x.shape[-1] if x.ndim > 1 else ''}" for x in inputs if isinstance(x, Tensor)
    ]
    device = inputs[0].device.type
    on = torch.is_autocast_enabled(device)
    return " ".join([*words, *([f"autocast:{_dtype(torch.get_autocast_dtype(device))}"] if on else [])])


def shapes(inputs: Sequence[Any]) -> str:
    return " ".join("x".join(map(str, x.shape)) for x in inputs if isinstance(x, Tensor))


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@functools.cache
def card(device: str) -> str:
    """Name and compute capability."""
    if not device.startswith("cuda"):
        return device
    major, minor = torch.cuda.get_device_capability(device)
    return f"{torch.cuda.get_device_name(device)} sm_{major}{minor}"


@functools.cache
def versions(kernel: str) -> str:
    """Of torch, of Triton, and of the package whose kernel it is."""
    found = {"torch": torch.__version__, "triton": _version("triton")}
    if kernel in MODULES:
        found[kernel] = _version(MODULES[kernel])
    return " ".join(f"{name}={version}" for name, version in found.items())


def _version(module: str) -> str:
    names = importlib.metadata.packages_distributions().get(module, [])
    return importlib.metadata.version(names[0]) if names else "none"


@functools.cache
def source(module: str) -> str:
    """A hash of a module of ours and of all of ours that it imports, however deep."""
    seen: dict[str, bytes] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = _file(name)
        if name not in seen and name not in CHOOSING and path is not None:
            seen[name] = path.read_bytes()
            waiting += _imports(seen[name])
    digest = hashlib.sha256()
    for name in sorted(seen):
        digest.update(name.encode() + b"\0" + seen[name] + b"\0")
    return digest.hexdigest()[:16]


def _file(module: str) -> Path | None:
    """A package's __init__ says what an op is called by, and nothing of a kernel."""
    path = ZOO.parent.joinpath(*module.split(".")).with_suffix(".py")
    return path if path.is_file() else None


def _imports(text: bytes) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("zoo.") and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


# files -----------------------------------------------------------------------------------------------------


def folder() -> Path:
    """Of this user's verdicts; need not be there."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "zoo" / "verdicts"


def read(key: Key) -> Verdict | None:
    """None: there is none, or none that can be read."""
    try:
        found = parsed(json.loads((folder() / key.name).read_text()))
    except (OSError, ValueError):
        return None
    return found if found.key == key else None


def write(verdict: Verdict) -> None:
    """In one move: a reader meets all of it or nothing.  OSError: it cannot be written."""
    path = folder() / verdict.key.name
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        part.write_text(json.dumps(asdict(verdict), indent=1) + "\n")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def everything() -> list[Verdict]:
    """All of this user's that can be read, by op."""
    found = []
    for path in sorted(folder().glob("*.json")):
        try:
            found.append(parsed(json.loads(path.read_text())))
        except (OSError, ValueError):
            continue
    return found


def read_file(path: Path) -> list[Verdict]:
    """ValueError: it holds no verdicts."""
    try:
        return [parsed(one) for one in _list(json.loads(path.read_text()))]
    except (OSError, ValueError) as error:
        raise ValueError(f"--verdicts (={path}) cannot be read: {error}.") from None


def write_file(path: Path, verdicts: Iterable[Verdict]) -> None:
    path.write_text(json.dumps([asdict(verdict) for verdict in verdicts], indent=1) + "\n")


def _list(found: Any) -> list[Any]:
    if not isinstance(found, list):
        raise ValueError("it must be a list of verdicts")
    return found


KINDS: dict[str, tuple[type, ...]] = {
    "end": (str,),
    "why": (str,),
    "worst": (str,),
    "error": (int, float),
    "bound": (int, float),
    "seconds": (int, float, type(None)),
    "usual_seconds": (int, float, type(None)),
    "sizes": (str,),
    "when": (str,),
}


def parsed(found: Any) -> Verdict:
    """ValueError: it is no verdict."""
    if not (isinstance(found, dict) and isinstance(found.get("key"), dict)):
        raise ValueError("a verdict has a key")
    key, rest = found["key"], {name: value for name, value in found.items() if name != "key"}
    told = {name: value for name, value in key.items() if name != "trained"}
    if key.keys() != Key.__annotations__.keys() or type(key["trained"]) is not bool:
        raise ValueError(f"the key of a verdict has {', '.join(Key.__annotations__)}")
    if not all(isinstance(value, str) for value in told.values()) or rest.keys() != KINDS.keys():
        raise ValueError(f"a verdict has key, {', '.join(KINDS)}")
    if not all(type(rest[name]) in kinds for name, kinds in KINDS.items()) or rest["end"] not in ENDS:
        raise ValueError(
            f"a verdict ends in one of {', '.join(ENDS)}, and its errors and seconds are numbers"
        )
    return Verdict(key=Key(**key), **rest)
