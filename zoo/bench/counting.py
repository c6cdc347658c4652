"""Count the products of a computation, and time each of its operations."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from zoo.training.process import now

ATEN = torch.ops.aten


def flops(run: Callable[[], object]) -> float:
    """Run `run` once and return its FLOPs: a multiply-add counts 2, causal attention only the needed half."""
    with FlopCounterMode(display=False, custom_mapping=CPU_FORMULAS) as counter:
        run()
    return float(counter.get_total_flops())


def _addmm(_into: Any, a: Any, b: Any, **_: Any) -> int:
    return 2 * a[0] * a[1] * b[1]


def _linear(x: Any, weight: Any, *_: Any, **_shape: Any) -> int:
    return 2 * prod(x) * weight[0]


def _attention(q: Any, k: Any, v: Any, _dropout: float = 0.0, causal: bool = False, **_: Any) -> int:
    return sdpa_flop_count(q, k, v) // (1 + causal)


def _attention_backward(
    _grad: Any, q: Any, k: Any, v: Any, _y: Any, _sums: Any, dropout: float, causal: bool, **_: Any
) -> int:
    """Return the FLOPs of five products where the forward pass has two: the scores are computed again."""
    return 5 * _attention(q, k, v, dropout, causal) // 2


# torch's counter leaves out in-place products, oneDNN's products and CPU attention
CPU_FORMULAS: dict[Any, Any] = {
    ATEN.addmm_: _addmm,
    getattr(torch.ops.mkldnn, "_linear_pointwise", None): _linear,
    ATEN._scaled_dot_product_flash_attention_for_cpu: _attention,
    ATEN._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
}


def seconds_of_ops(step: Callable[[], object], kind: str, threads: int) -> Mapping[str, float]:
    """Return the seconds that one `step` spends in each operation of torch, backward included.

    On a CPU a clock times each operation, not torch's profiler: its records would fill the gaps that large
    tensors leave, new tensors would find no gap of their size, and a step take up to four times as long.
    """
    if kind == "cuda":
        with torch.profiler.profile(acc_events=True) as profile:
            step()
        seconds: defaultdict[str, float] = defaultdict(float)
        for event in profile.key_averages():
            name = event.key.removeprefix("aten::") if event.key.startswith("aten::") else "dispatch"
            seconds[name] += event.self_device_time_total / 1e6
        return seconds
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
