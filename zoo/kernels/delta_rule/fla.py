"""The delta rule by flash-linear-attention: chunks, with or without a decay of each head.

The package's tensors are [B T H C], it scales queries unless told otherwise, and its states are in float32.
Products are in the half precision of q, or in bfloat16, to which float32 inputs are rounded.
"""

# pyright: reportMissingImports=false, reportCallIssue=false, reportArgumentType=false

from typing import Any

import torch
from torch import Tensor

from zoo.kernels.common.packages import HALF, lifted, off_device, untrained_gates

LARGEST = 256  # K


@lifted()
def delta_rule_fla(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor | None, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Compute the rule with one write for each query, and with products in half precision."""
    from fla.ops.delta_rule import chunk_delta_rule
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    dtype = q.dtype if q.dtype in HALF else torch.bfloat16
    by_time = [x.to(dtype).transpose(1, 2).contiguous() for x in (q, k, v)]
    write = beta.float().transpose(1, 2).contiguous()
    start = None if state is None else state.float().contiguous()
    if log_decay is None:
        y, last = chunk_delta_rule(
            *by_time, beta=write.to(dtype), scale=1.0, initial_state=start, output_final_state=True
        )
    else:
        decay = log_decay.float().transpose(1, 2).contiguous()
        y, last = chunk_gated_delta_rule(
            *by_time, g=decay, beta=write, scale=1.0, initial_state=start, output_final_state=True
        )
    return y.transpose(1, 2).to(v.dtype), last


def unfit(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor | None = None, *_: Any
) -> str | None:
    """Return why the kernel cannot take these inputs; None: it can."""
    if q.shape[2] != k.shape[2]:
        return f"one write a query is all that fla's chunks take, and there are {k.shape[2] // q.shape[2]}"
    if k.shape[3] > LARGEST:
        return f"key_dim (={k.shape[3]}) must be at most {LARGEST}"
    return off_device("fla", q) or (None if log_decay is None else untrained_gates(q, k, v, log_decay))
