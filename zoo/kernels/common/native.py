"""Compile the C files of this package into libraries with the machine's own compiler, at their first use.

No library is required: an op without one says why, and runs in torch.  A library depends on its source, the
compiler and the processor.  It is kept in $XDG_CACHE_HOME/zoo/native (~/.cache/zoo/native), beside its
checksum; where nothing can be kept, or others can write, each process makes its own.  Before a process uses a
library, it compares the library with the form in torch.
"""

import ctypes
import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo.common.checks import one_line
from zoo.common.foreign import visible
from zoo.kernels.common import processor
from zoo.kernels.common.private import Unsafe, cache_folder, make_private, read_file

REORDERED = ("-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math")  # sums, side by side
FLAGS = ("-std=gnu11", "-O3", *REORDERED, "-march=native", "-fopenmp-simd", "-shared", "-fPIC")
WIDE = "-mprefer-vector-width=512"  # by default compilers use half of the widest registers
MOST_BYTES = 1 << 24  # of a library; one has some 20,000
PATIENCE = 60.0  # seconds that a compiler may take; it needs about one

CLOSE = 1e-4  # the most distance from the form in torch, over its largest number; rounding makes 1e-6

Library = Callable[..., None]  # (name of a function, its arguments: tensors and whole numbers)
Form = Callable[..., Any]
Draw = Callable[[], Sequence[Tensor]]


class Missing(Exception):
    """The error of a library that cannot be had here; its message is one line."""


class Native:
    """The functions of one C file, which compute in float32.

    form: the op's form that calls them.  right: the form in torch to compare it with, on what `inputs` draws.
    needs: another op's, which this op calls too.
    """

    def __init__(
        self, source: Path, form: Form, right: Form, inputs: Draw, needs: "Native | None" = None
    ) -> None:
        self.source, self.form, self.right, self.inputs, self.needs = source, form, right, inputs, needs
        self.lack: str | None = None  # what `absent` has found
        self.absent = functools.cache(self._absent)
        self.library = functools.cache(lambda: library(self.source))

    def _absent(self) -> str | None:
        """Return why this machine has no library that computes what it should; None: it has one."""
        try:
            self.library()
            with ThreadPoolExecutor(1) as thread:  # in which no mode of the caller holds: autocast, vmap
                off = thread.submit(self._distance).result()
        except Missing as error:
            self.lack = str(error)
        else:
            self.lack = None if off <= CLOSE else f"it is compiled, and {off:.1e} off the form in torch"
        self.lack = self.lack or (self.needs.absent() if self.needs else None)
        return self.lack

    def unfit(self, *inputs: Tensor | None) -> str | None:
        """Return why the library cannot take these inputs; None: it can."""
        given = [x for x in inputs if x is not None]
        if other := next((x.device.type for x in given if x.device.type != "cpu"), None):
            return f"native runs on a CPU, and a tensor is on {other}"
        if torch.float64 in [x.dtype for x in given]:
            return "native computes in float32"
        if torch.compiler.is_compiling():
            return "trainer.step=compile cannot trace it"
        return self.absent()

    def _distance(self) -> float:
        """Return the largest distance of an output or gradient from torch's, over its largest number."""
        inputs = [x.requires_grad_() for x in self.inputs()]
        ways = [_outputs_and_gradients(form, inputs) for form in (self.form, self.right)]
        apart = [(ours - right).abs().max() / right.abs().max() for ours, right in zip(*ways, strict=True)]
        return float(torch.stack(apart).max())  # NaN if any distance is NaN


def side_by_side(run: Callable[[int, slice], Any], members: int, rows: int) -> list[Any]:
    """Run every share of each member's rows, on as many threads as torch uses, and return the results."""
    threads = torch.get_num_threads()
    each = max(1, -(-rows // threads))
    shares = [(p, slice(lo, lo + each)) for p in range(members) for lo in range(0, rows, each)]
    if threads == 1:
        return [run(*share) for share in shares]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda share: run(*share), shares))


def drawn(*sizes: tuple[int, ...]) -> list[Tensor]:
    """Draw normal numbers in float32, whatever the default dtype is; they are the same in each process."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(size, generator=generator, dtype=torch.float32) for size in sizes]


def _outputs_and_gradients(form: Form, inputs: Sequence[Tensor]) -> list[Tensor]:
    outputs = form(*inputs)
    outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    gradients = torch.autograd.grad([y.sin().sum() for y in outputs], inputs)
    return [*(y.detach() for y in outputs), *gradients]


def library(source: Path) -> Library:
    """Return the functions of a C file, compiled now or before.  Missing: why they cannot be had."""
    compiler = _compiler()
    wide = [WIDE] * (platform.machine().lower() in ("x86_64", "amd64"))
    command = [*compiler, *FLAGS, *wide]
    texts = [path.read_text() for path in (source, *sorted(Path(__file__).parent.glob("*.h")))]
    of = (*texts, *command, _output([*compiler, "--version"]), _processor())
    name = f"{source.parent.name}.{hashlib.sha256(repr(of).encode()).hexdigest()[:16]}.so"
    command += [str(source), "-o"]
    try:
        make_private(folder())
        return _stored(folder() / name, command)
    except Unsafe as error:
        _warn(f"no compiled library is taken from there: {error}; this process makes its own")
    except OSError:  # nothing can be written there, or loaded from there
        pass
    try:
        with tempfile.TemporaryDirectory() as place:
            _make(path := Path(place) / name, command)
            return _loaded(path, compiler[0])
    except OSError as error:
        raise Missing(f"no place for a library: {one_line(error)}") from None


def _compiler() -> list[str]:
    words = os.environ.get("CC") or "cc"
    try:
        compiler = shlex.split(words)
    except ValueError as error:
        raise Missing(f"CC (={words!r}) is no command: {one_line(error)}") from None
    if not compiler:
        raise Missing(f"CC (={words!r}) names no compiler")
    if shutil.which(compiler[0]) is None:
        raise Missing(f"no C compiler: {visible(compiler[0])} is not installed")
    return compiler


@functools.cache
def _warn(text: str) -> None:
    """Print a warning once a process."""
    print(f"zoo: {visible(text)}", file=sys.stderr, flush=True)


def folder() -> Path:
    """Return the folder that keeps this user's libraries; OSError: no home is known."""
    return cache_folder("native")


def _stored(path: Path, command: list[str]) -> Library:
    """Load a library if it matches the checksum beside it; otherwise compile it again and load that."""
    try:
        whole = _checksum(read_file(path, MOST_BYTES, private=True))
        if whole != read_file(_checksum_of(path), MOST_BYTES, private=True):
            raise FileNotFoundError
    except FileNotFoundError:
        _make(path, command)
    return _loaded(path, command[0])


def _checksum_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _checksum(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode()


def _make(path: Path, command: list[str]) -> None:
    """Compile the library, then write its checksum; each file is synced to disk before it gets its name."""
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")
    try:
        _output([*command, str(part)])
        if not part.is_file():
            raise Missing(f"{command[0]} wrote no library")
        text = part.read_bytes()
        _rename(part, path)
        part.write_bytes(_checksum(text))
        _rename(part, _checksum_of(path))
    finally:
        part.unlink(missing_ok=True)


def _rename(part: Path, path: Path) -> None:
    part.chmod(0o700)
    with part.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(part, path)


def _loaded(path: Path, compiler: str) -> Library:
    try:
        functions = ctypes.CDLL(str(path))
    except OSError as error:
        raise Missing(f"what {compiler} made cannot be loaded: {visible(one_line(error))}") from None

    def call(name: str, *arguments: Any) -> None:
        try:
            function = getattr(functions, name)
        except AttributeError:
            raise Missing(f"the library that {compiler} made has no function {name}") from None
        function(*map(_plain, arguments))

    return call


def _plain(argument: Any) -> Any:
    """Return a number as a long, a tensor as the address of its first scalar; refuse what C would misread."""
    if not isinstance(argument, Tensor):
        return ctypes.c_long(argument)
    if argument.dtype not in (torch.float32, torch.int64) or argument.device.type != "cpu":
        kind = str(argument.dtype).removeprefix("torch.")
        raise ValueError(f"native computes in float32 on a CPU, and one is {kind} on {argument.device.type}")
    return ctypes.c_void_p(argument.data_ptr())


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=True, timeout=PATIENCE
        ).stdout
    except subprocess.CalledProcessError as error:
        why = next((line for line in error.stderr.splitlines() if "error:" in line), "it says nothing")
        raise Missing(f"{command[0]} cannot compile it: {visible(why)}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{command[0]} cannot be run: {one_line(error)}") from None


@functools.cache
def _processor() -> str:
    """Return what -march=native depends on; machines that differ in it may share a home folder."""
    known = processor.facts()
    return "".join(known.get(key, "") for key in ("model name", "flags", "Features")) or platform.processor()
