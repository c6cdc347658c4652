"""C in this package, made into a library by the machine's own compiler when it is first wanted.

Never required: an op says why it has none, and runs in torch.  A library is of its source, the compiler and
the processor.  It is kept in $XDG_CACHE_HOME/zoo/native (~/.cache/zoo/native), and where nothing can be kept
each process makes its own.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from zoo.checks import one_line

FLAGS = ("-std=gnu11", "-O3", "-march=native", "-fopenmp-simd", "-shared", "-fPIC")
WIDE = "-mprefer-vector-width=512"  # compilers take half of the widest registers by themselves
PATIENCE = 60.0  # seconds for a compiler; it needs one

Library = Callable[..., None]  # (name of a function, its arguments: tensors and whole numbers)


class Missing(Exception):
    """Why there is no library here, in one line."""


def library(source: Path) -> Library:
    """The functions of a C file.  Missing: there is no compiler, or it cannot."""
    command = [*shlex.split(os.environ.get("CC", "cc")), *FLAGS]
    command += [WIDE] * (platform.machine().lower() in ("x86_64", "amd64"))
    if shutil.which(command[0]) is None:
        raise Missing(f"no C compiler: {command[0]} is not installed")
    of = (source.read_text(), *command, _said([command[0], "--version"]), _processor())
    name = f"{source.parent.name}.{hashlib.sha256(repr(of).encode()).hexdigest()[:16]}.so"
    try:
        return _kept(folder() / name, [*command, str(source), "-o"])
    except OSError:  # nothing can be written there, or what lies there is no library
        with tempfile.TemporaryDirectory() as own:
            return _kept(Path(own) / name, [*command, str(source), "-o"])


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
    """A number as a long, a tensor, which must be contiguous, as the place of its first scalar."""
    if isinstance(argument, Tensor):
        assert argument.is_contiguous()
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
