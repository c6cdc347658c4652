"""What the machine can do at best, measured in the run: products a second, bytes a second."""

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

SIDE = {"cpu": 2048, "cuda": 8192}  # of the square matrices
COPIED = {"cpu": 2**28, "cuda": 2**31}  # bytes
REPEATS = 5


@dataclass(frozen=True)
class Machine:
    """kind: cpu or cuda.  clock: with one CPU thread the seconds of this process alone ("cpu"), which another
    process on the machine does not lengthen; else "wall"."""

    kind: str
    threads: int
    rates: dict[torch.dtype, float] = field(default_factory=dict)  # multiply-adds count 2
    bandwidth: float = 0.0  # read and written

    @property
    def device(self) -> str:
        return torch.cuda.get_device_name() if self.kind == "cuda" else processor()

    @property
    def clock(self) -> str:
        return "cpu" if self.kind == "cpu" and self.threads == 1 else "wall"

    @property
    def versions(self) -> str:
        return f"torch {torch.__version__}, Python {platform.python_version()}"

    def now(self) -> float:
        return now(self.kind, self.threads)

    def products(self, flops: float, dtype: torch.dtype) -> tuple[float, str]:
        """Seconds of so many operations, and the words for it."""
        rate = self.rates[dtype]
        return flops / rate, f"{flops / 1e9:.3g} GFLOP at {rate / 1e9:.3g} GFLOP/s ({_name(dtype)})"

    def moved(self, count: float) -> tuple[float, str]:
        """Seconds of moving so many bytes, and the words for it."""
        return count / self.bandwidth, f"{count / 1e6:.3g} MB at {self.bandwidth / 1e9:.3g} GB/s"


def now(kind: str, threads: int) -> float:
    """Seconds, once a device has done what it was given; of the processor itself on one CPU thread."""
    if kind == "cuda":
        torch.cuda.synchronize()
    return time.process_time() if kind == "cpu" and threads == 1 else time.perf_counter()


def measured(kind: str, threads: int, dtypes: tuple[torch.dtype, ...] = (torch.float32,)) -> Machine:
    """The machine with its best product and copy; sets torch's threads."""
    torch.set_num_threads(threads)
    blank = Machine(kind, threads)
    rates = {dtype: _rate(blank, dtype) for dtype in dtypes}
    return Machine(kind, threads, rates, _bandwidth(blank))


def _rate(machine: Machine, dtype: torch.dtype) -> float:
    side = SIDE[machine.kind]
    rng = torch.Generator(machine.kind).manual_seed(0)  # of ones a card multiplies more than of numbers
    a = torch.randn(side, side, device=machine.kind, generator=rng).to(dtype)
    out = torch.empty_like(a)
    return 2 * side**3 / _best(machine, lambda: torch.mm(a, a, out=out))


def _bandwidth(machine: Machine) -> float:
    source = torch.zeros(COPIED[machine.kind], dtype=torch.uint8, device=machine.kind)
    target = torch.empty_like(source)
    return 2 * source.numel() / _best(machine, lambda: target.copy_(source))


def _best(machine: Machine, run: Callable[[], object]) -> float:
    run()
    times = []
    for _ in range(REPEATS):
        began = machine.now()
        run()
        times.append(machine.now() - began)
    return min(times)


def processor() -> str:
    """The CPU's name, as the system gives it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
