"""Softmax attention by flash-attn (Dao 2023, arXiv 2307.08691), whole or in a window.

The package's tensors are [B T H C].  Its window (left, right) counts the keys beside the query's own, so ours
is (window - 1, 0).  As in our op, the last query is at the last key, and biases are -slope (i - j).
"""

from typing import Any

import torch
from torch import Tensor

from zoo.kernels.common.packages import lifted, not_half, off_device

WIDEST = 256  # channels of a head


@lifted(unbatched=[4])
def attention_flash_attn(
    q: Tensor, k: Tensor, v: Tensor, window: int | None = None, slopes: Tensor | None = None
) -> Tensor:
    """Compute attention in bfloat16 or float16, with sums in float32."""
    from flash_attn import flash_attn_func  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]

    y = flash_attn_func(
        *(x.transpose(1, 2) for x in (q, k, v)),
        causal=True,
        window_size=(-1, -1) if window is None else (window - 1, 0),
        alibi_slopes=None if slopes is None else slopes.float(),
        deterministic=torch.are_deterministic_algorithms_enabled(),
    )
    return y.transpose(1, 2)


def unfit(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> str | None:
    """Return why the kernel cannot take these inputs; None: it can."""
    if q.shape[-1] > WIDEST:
        return f"head_dim (={q.shape[-1]}) must be at most {WIDEST}"
    if not q.shape[-1] == k.shape[-1] == v.shape[-1]:
        return "keys and values must have as many channels"
    return not_half("flash_attn", q, k, v) or off_device("flash_attn", q)
