"""Measure the best speed of this machine during the run: products a second and bytes a second."""

import platform
import timeit
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch

from zoo.kernels.common.processor import facts
from zoo.kernels.linear import linear
from zoo.training.process import now

SIDE = {"cpu": 2048, "cuda": 8192}  # rows and columns of the matrices that are multiplied
COPIED = {"cpu": 2**28, "cuda": 2**31}  # bytes
REPEATS = 5


class Floor(NamedTuple):
    """The least seconds that a machine needs (None: nothing bounds them), and what makes them up."""

    seconds: float | None = None
    made_of: str = ""


@dataclass(frozen=True)
class Machine:
    """A device and its best speeds; a speed that is not given is measured at its first use.

    kind: cpu or cuda.  rates: dtype -> products a second, where a multiply-add counts 2.  bandwidth: bytes
    read and written a second.
    """

    kind: str
    threads: int
    rates: dict[torch.dtype, float] = field(default_factory=dict)
    bandwidth: float = 0.0

    @property
    def device(self) -> str:
        """Return the name of the GPU or of the processor."""
        return torch.cuda.get_device_name() if self.kind == "cuda" else processor()

    @property
    def clock(self) -> str:
        """Return "cpu" for one CPU thread (time of this process alone, whatever others do), else "wall"."""
        return "cpu" if self.kind == "cpu" and self.threads == 1 else "wall"

    @property
    def versions(self) -> str:
        """Return the versions of torch and Python."""
        return f"torch {torch.__version__}, Python {platform.python_version()}"

    def now(self) -> float:
        """Return the seconds of the machine's clock."""
        return now(self.kind, self.threads)

    def products(self, flops: float, dtype: torch.dtype) -> Floor:
        """Return the time that `flops` operations take at the best rate."""
        rate = self.rates.get(dtype) or _rate(self.kind, self.threads, dtype)
        name = str(dtype).removeprefix("torch.")
        return Floor(flops / rate, f"{flops / 1e9:.3g} GFLOP at {rate / 1e9:.3g} GFLOP/s ({name})")

    def moved(self, count: float) -> Floor:
        """Return the time that moving `count` bytes takes at the best speed."""
        speed = self.bandwidth or _bandwidth(self.kind, self.threads)
        return Floor(count / speed, f"{count / 1e6:.3g} MB at {speed / 1e9:.3g} GB/s")


@cache
def _rate(kind: str, threads: int, dtype: torch.dtype) -> float:
    rng = torch.Generator(kind).manual_seed(0)  # a card multiplies ones faster than random numbers
    a = torch.randn(SIDE[kind], SIDE[kind], device=kind, generator=rng).to(dtype)
    out = torch.empty_like(a)
    ways = [lambda: torch.mm(a, a, out=out), lambda: linear(a, a)]
    return 2 * SIDE[kind] ** 3 / min(_best(kind, threads, way) for way in ways)


@cache
def _bandwidth(kind: str, threads: int) -> float:
    source = torch.zeros(COPIED[kind], dtype=torch.uint8, device=kind)
    target = torch.empty_like(source)
    return 2 * source.numel() / _best(kind, threads, lambda: target.copy_(source))


def _best(kind: str, threads: int, run: Callable[[], object]) -> float:
    run()
    return min(timeit.repeat(run, timer=lambda: now(kind, threads), repeat=REPEATS, number=1))


def processor() -> str:
    """Return the CPU's name, as the system gives it."""
    return facts().get("model name") or platform.processor()


def most_resident() -> int | None:
    """Return the most bytes that this process has held in memory; None where the system does not say."""
    status = Path("/proc/self/status")  # not getrusage, which starts from the parent's memory
    lines = status.read_text().splitlines() if status.exists() else []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")), None)
