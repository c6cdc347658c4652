"""C in this package, made into a library by the machine's own compiler when it is first wanted.

Never required: an op says why it has none, and runs in torch.  A library is of its source, the compiler and
the processor.  It is kept in $XDG_CACHE_HOME/zoo/native (~/.cache/zoo/native), and where nothing can be kept
each process makes its own.  Before a process takes it, it compares it with the form in torch.
"""

import ctypes
import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo.checks import one_line

FLAGS = ("-std=gnu11", "-O3", "-march=native", "-fopenmp-simd", "-shared", "-fPIC")
WIDE = "-mprefer-vector-width=512"  # compilers take half of the widest registers by themselves
PATIENCE = 60.0  # seconds for a compiler; it needs one

CLOSE = 1e-4  # how far from the form in torch, relative to the largest; rounding makes 1e-6 of it

Library = Callable[..., None]  # (name of a function, its arguments: tensors and whole numbers)
Form = Callable[..., Any]


class Missing(Exception):
    """Why there is no library here, in one line."""


class Native:
    """The functions of one C file, which compute in float32.

    form: made of them.  right: the form in torch that it is compared with.  inputs: to compare them on.
    """

    def __init__(self, source: Path, form: Form, right: Form, inputs: Callable[[], Sequence[Tensor]]) -> None:
        self.source, self.form, self.right, self.inputs = source, form, right, inputs
        self.absent = functools.cache(self._absent)
        self.library = functools.cache(lambda: library(self.source))

    def _absent(self) -> str | None:
        """Why there is none on this machine, in one line; None: there is, and it computes what it should."""
        try:
            self.library()
        except Missing as error:
            return str(error)
        with ThreadPoolExecutor(1) as own:  # where no mode of the caller's holds: autocast, vmap, inference
            off = own.submit(self._distance).result()
        return None if off <= CLOSE else f"it is compiled, and {off:.1e} off the form in torch"

    def unfit(self, *inputs: Tensor | None) -> str | None:
        """Why these cannot go through it, in words; None: they can."""
        given = [x for x in inputs if x is not None]
        if other := next((x.device.type for x in given if x.device.type != "cpu"), None):
            return f"native runs on a CPU, and a tensor is on {other}"
        if torch.float64 in [x.dtype for x in given]:
            return "native computes in float32"
        if torch.compiler.is_compiling():
            return "trainer.step=compile cannot trace it"
        return self.absent()

    def _distance(self) -> float:
        """Of outputs and gradients from the form in torch: the farthest, over the largest of its kind."""
        inputs = [x.requires_grad_() for x in self.inputs()]
        ways = [_outputs_and_gradients(form, inputs) for form in (self.form, self.right)]
        apart = [(own - right).abs().max() / right.abs().max() for own, right in zip(*ways, strict=True)]
        return float(torch.stack(apart).max())  # NaN, where one is


def side_by_side(run: Callable[[int, slice], Any], members: int, rows: int) -> list[Any]:
    """What `run` gives for each share of each member's rows, on as many threads as torch has."""
    threads = torch.get_num_threads()
    each = max(1, -(-rows // threads))
    shares = [(p, slice(lo, lo + each)) for p in range(members) for lo in range(0, rows, each)]
    if threads == 1:
        return [run(*share) for share in shares]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda share: run(*share), shares))


def drawn(*sizes: tuple[int, ...]) -> list[Tensor]:
    """Normal numbers in float32, whatever the default is; the same in each process."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(size, generator=generator, dtype=torch.float32) for size in sizes]


def _outputs_and_gradients(form: Form, inputs: Sequence[Tensor]) -> list[Tensor]:
    outputs = form(*inputs)
    outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    gradients = torch.autograd.grad(_total(outputs), inputs)
    return [*(y.detach() for y in outputs), *gradients]


def _total(outputs: Iterable[Tensor]) -> Tensor:
    return torch.stack([y.sin().sum() for y in outputs]).sum()


def library(source: Path) -> Library:
    """The functions of a C file.  Missing: there is no compiler, or it cannot."""
    compiler = shlex.split(os.environ.get("CC") or "cc")
    if shutil.which(compiler[0]) is None:
        raise Missing(f"no C compiler: {compiler[0]} is not installed")
    wide = [WIDE] * (platform.machine().lower() in ("x86_64", "amd64"))
    command = [*compiler, *FLAGS, *wide]
    texts = [path.read_text() for path in (source, *sorted(Path(__file__).parent.glob("*.h")))]
    of = (*texts, *command, _said([*compiler, "--version"]), _processor())
    name = f"{source.parent.name}.{hashlib.sha256(repr(of).encode()).hexdigest()[:16]}.so"
    try:
        return _kept(folder() / name, [*command, str(source), "-o"])
    except OSError:  # nothing can be written there, or loaded from there, or what lies there is no library
        pass
    try:
        with tempfile.TemporaryDirectory() as own:
            return _kept(Path(own) / name, [*command, str(source), "-o"])
    except OSError as error:
        raise Missing(f"no place for a library: {one_line(error)}") from None


def folder() -> Path:
    """Of this user's libraries; need not be there."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "zoo" / "native"


def _kept(path: Path, command: list[str]) -> Library:
    """It appears in one move: of several processes that make it at once, each loads a whole one."""
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")
        try:
            _said([*command, str(part)])
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
    functions = ctypes.CDLL(str(path))

    def call(name: str, *arguments: Any) -> None:
        getattr(functions, name)(*map(_plain, arguments))

    return call


def _plain(argument: Any) -> Any:
    """A number as a long, a tensor as the place of its first scalar."""
    if isinstance(argument, Tensor):
        return ctypes.c_void_p(argument.data_ptr())
    return ctypes.c_long(argument)


def _said(command: list[str]) -> str:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=True, timeout=PATIENCE
        ).stdout
    except subprocess.CalledProcessError as error:
        said = next((line for line in error.stderr.splitlines() if "error" in line), "it says nothing")
        raise Missing(f"{command[0]} cannot compile it: {said}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{command[0]} cannot be run: {one_line(error)}") from None


@functools.cache
def _processor() -> str:
    """What -march=native reads; a home may be shared by machines that differ in it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    wanted = ("model name", "flags", "Features")
    return "".join(next((line for line in lines if line.startswith(name)), "") for name in wanted)
