"""Mamba's scan by mamba-ssm's CUDA kernel (Gu and Dao, arXiv 2312.00752, Section 3.3.2).

The package's tensors are [B D T], and B and C [B N T].  Its kernel starts from zero and ignores the gradient
of the last state.  The share of a first state is therefore added here, y_t += C_t exp(A sum_{j<=t} dt_j) h_0,
and likewise to the last state; and a backward pass through the last state is an error.
"""

from typing import Any

import torch
from torch import Tensor

from zoo.kernels.common.packages import lifted, off_device

LARGEST = 256  # N
NARROW = (torch.float32, torch.float16, torch.bfloat16)


@lifted(unbatched=[2])
def selective_scan_mamba_ssm(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Scan, with the last state in float32 and without a gradient to it."""
    from mamba_ssm.ops.selective_scan_interface import selective_scan_fn  # pyright: ignore[reportMissingImports]

    dtype = x.dtype if x.dtype == dt.dtype == B.dtype == C.dtype else torch.float32
    by_channel = [t.to(dtype).transpose(1, 2).contiguous() for t in (x, dt, B, C)]
    u, delta, b, c = by_channel
    y, h = selective_scan_fn(u, delta, A.float(), b, c, delta_softplus=False, return_last_state=True)
    if h.requires_grad:
        h.register_hook(_refused)
    y = y.transpose(1, 2)
    if state is None:
        return y, h
    since = dt.float().cumsum(1)
    decays = torch.exp(since[..., None] * A.float())
    decayed = decays * state.float()[:, None]
    y = y + (decayed * C.float()[:, :, None]).sum(-1).to(y.dtype)
    return y, h + decayed[:, -1]


def unfit(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, state: Tensor | None = None) -> str | None:
    """Return why the kernel cannot take these inputs; None: it can."""
    if A.shape[1] > LARGEST:
        return f"d_state (={A.shape[1]}) must be at most {LARGEST}"
    given = [t for t in (x, dt, A, B, C, state) if t is not None]
    if not all(t.dtype in NARROW for t in given):
        return f"mamba_ssm takes float32, bfloat16 or float16, and gets {[t.dtype for t in given]}"
    return off_device("mamba_ssm", x)


def _refused(gradient: Any) -> None:
    if gradient is not None:
        raise ValueError(
            "kernels (=package): mamba_ssm has no gradient of the last state of selective_scan.  "
            "Use kernels=auto."
        )
