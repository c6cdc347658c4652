"""Compute linear attention by flash-linear-attention in chunks, and the denominator, a sum of keys, by torch.

The package's tensors are [B T H C], it scales queries unless told otherwise, and its states are in float32.
Its own denominator is not used: it has another eps, and is summed in the dtype of the keys.
"""

# pyright: reportMissingImports=false, reportCallIssue=false, reportArgumentType=false

from typing import Any

from torch import Tensor

from zoo.kernels.common.packages import lifted, off_device, too_wide
from zoo.kernels.common.precision import narrowest


def linear_attention_fla(
    phi_q: Tensor, phi_k: Tensor, v: Tensor, eps: float | None, kv: Tensor | None, z: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Take the sums over values from the package, and the denominator from torch."""
    y, last = linear_attention_sums(*narrowest(phi_q, phi_k, v), kv)
    if eps is None:
        return y, last, None
    before = phi_k.new_zeros(()) if z is None else z[..., None, :]
    sums = phi_k.float().cumsum(-2) + before.float()
    total = (phi_q.float() * sums).sum(-1, keepdim=True) + eps
    return (y / total).to(y.dtype), last, sums[..., -1, :].clone()


def unfit(phi_q: Tensor, phi_k: Tensor, v: Tensor, *_: Any) -> str | None:
    """Return why the kernel cannot take these inputs; None: it can."""
    return too_wide("fla", phi_q, phi_k, v) or off_device("fla", phi_q)


@lifted()
def linear_attention_sums(q: Tensor, k: Tensor, v: Tensor, kv: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return y without its denominator, and the last sum."""
    from fla.ops.linear_attn import chunk_linear_attn

    by_time = [x.transpose(1, 2).contiguous() for x in (q, k, v)]
    start = None if kv is None else kv.float().contiguous()
    y, last = chunk_linear_attn(
        *by_time, scale=1.0, initial_state=start, output_final_state=True, normalize=False
    )
    return y.transpose(1, 2), last
