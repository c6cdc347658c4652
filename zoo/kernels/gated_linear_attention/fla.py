"""Gated linear attention by flash-linear-attention: chunks, one decay a head or one a key channel.

The package's tensors are [B T H C], it scales queries unless told otherwise, and its states are in float32.
Products of float32 are made as the package makes them (tf32 on a card that has it).
"""

# pyright: reportMissingImports=false, reportCallIssue=false, reportArgumentType=false

from typing import Any

from torch import Tensor

from zoo.kernels.common.packages import lifted, off_device, too_wide, untrained_gates
from zoo.kernels.common.precision import narrowest


@lifted()
def gated_linear_attention_fla(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute in chunks, in the narrowest dtype of q, k and v."""
    from fla.ops.gla import chunk_gla
    from fla.ops.simple_gla import chunk_simple_gla

    q, k, v = narrowest(q, k, v)
    chunked = chunk_gla if log_decay.ndim == q.ndim else chunk_simple_gla
    by_time = [x.transpose(1, 2).contiguous() for x in (q, k, v, log_decay.float())]
    start = None if state is None else state.float().contiguous()
    y, last = chunked(*by_time, scale=1.0, initial_state=start, output_final_state=True)
    return y.transpose(1, 2), last


def unfit(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, *_: Any) -> str | None:
    """Return why the kernel cannot take these inputs; None: it can."""
    reason = too_wide("fla", q, k, v) or off_device("fla", q)
    return reason or (untrained_gates(q, k, v, log_decay) if log_decay.ndim < q.ndim else None)
