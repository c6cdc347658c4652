"""A recorder that records nothing: a replay is a call on the same buffers, its result in the same memory.

What stands between it and a CUDA graph is the device; what a graph asks of its surroundings it asks as well.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo.training.cuda_graphs import WARM_UPS


class Called:
    """recorded: how many steps were.  replayed: how often any was."""

    recorded = replayed = 0

    def warm_up(self, step: Callable[[], Tensor]) -> None:
        for _ in range(WARM_UPS):
            step()

    def record(self, step: Callable[[], Tensor]) -> Callable[[], Tensor]:
        type(self).recorded += 1
        result: list[Tensor] = []

        def replay() -> Tensor:
            type(self).replayed += 1
            value = step()
            if not result:
                result.append(torch.empty_like(value))
            return result[0].copy_(value)

        return replay


def checkpoint(folder: Path) -> dict[str, Any]:
    """last.ckpt without the times in it and the form of its steps."""
    contents = torch.load(folder / "last.ckpt", weights_only=True)
    told = ("seconds", "step_form")
    position = {k: v for k, v in contents["position"].items() if not k.endswith(told)}
    return contents | {"position": position}


def same(a: Any, b: Any) -> bool:
    """Equal to the last bit and the last type, through dicts and lists."""
    if isinstance(a, dict):
        return isinstance(b, dict) and [*a] == [*b] and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and a.dtype == b.dtype and torch.equal(a.nan_to_num(), b.nan_to_num())
    return type(a) is type(b) and (a == b or (a != a and b != b))
