"""The operations that a step's time goes to."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from zoo.bench.machine import now


def seconds_of_ops(step: Callable[[], object], kind: str, threads: int) -> Mapping[str, float]:
    """Return the seconds that one `step` spends in each operation of torch, backward included.

    On a CPU by the clock around each, and not by torch's profiler: its records come to lie in what large
    tensors have left, these then find no place of their size, and a step takes up to four times as long.
    """
    if kind == "cuda":
        return _profiled(step)
    with _Clock(kind, threads) as clock:
        step()
    return clock.seconds


class _Clock(TorchDispatchMode):
    def __init__(self, kind: str, threads: int) -> None:
        super().__init__()
        self.kind, self.threads = kind, threads
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        del types
        start = now(self.kind, self.threads)
        out = func(*args, **(kwargs or {}))
        self.seconds[func.overloadpacket.__name__] += now(self.kind, self.threads) - start
        return out


def _profiled(step: Callable[[], object]) -> Mapping[str, float]:
    with torch.profiler.profile(acc_events=True) as profile:
        step()
    seconds: defaultdict[str, float] = defaultdict(float)
    for event in profile.key_averages():
        name = event.key.removeprefix("aten::") if event.key.startswith("aten::") else "dispatch"
        seconds[name] += event.self_device_time_total / 1e6
    return seconds
