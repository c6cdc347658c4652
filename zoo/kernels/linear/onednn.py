"""A linear layer's products by oneDNN, which torch has built in, where torch's own are half as fast.

Torch multiplies float32 by MKL, which on an AMD processor computes 256 bits at a time.  From Zen 5 on (family
26) such a processor has units of 512, and oneDNN uses them: 235 to 255 GFLOP/s against 105 to 113 on one core
of an EPYC of that family (torch 2.13).
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from zoo.kernels.common import processor
from zoo.kernels.common.first_order import first_order

FEW = 256  # with fewer rows the call costs more than it gains
ZEN_5 = 26  # the first family of AMD's processors that compute 512 bits at a time


def linear_onednn(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Multiply by oneDNN, forward and backward; first derivatives only."""
    return _Linear.apply(x, weight, bias)  # pyright: ignore[reportReturnType]


def unfit(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> str | None:
    """Return why oneDNN cannot take these inputs, or gains nothing; None: neither."""
    if any(s.dtype != torch.float32 for s in (x, weight, bias) if s is not None):
        return "onednn computes in float32"
    if x.device.type != "cpu" or x.numel() < FEW * x.shape[-1]:
        return f"onednn multiplies {FEW} rows or more on a CPU"
    if torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
        return "trainer.step=compile and autocast choose by themselves"
    if torch._C._functorch.maybe_current_level() is not None:  # pyright: ignore[reportAttributeAccessIssue]
        return "torch.func cannot lift it"
    return _not_faster()


@cache
def _not_faster() -> str | None:
    """Return why MKL is as fast on this processor; None: it is not."""
    if not torch.backends.mkldnn.is_available() or torch.backends.cpu.get_cpu_capability() != "AVX512":
        return "torch has no oneDNN here, or the processor no AVX-512"
    known = processor.facts()
    if known.get("vendor_id") == "AuthenticAMD" and int(known.get("cpu family", 0)) >= ZEN_5:
        return None
    return "MKL is as fast on this processor"


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Return a [N D] times b^T, b [E D]."""
    if a.dtype != torch.float32:
        return a @ b.T
    if not (b.is_contiguous() or b.T.is_contiguous()):
        b = b.contiguous()  # on a slice oneDNN adds up one by one, a thousand times slower
    return torch.ops.mkldnn._linear_pointwise(a, b, None, "none", [], "")


def _of_weight(dy: Tensor, x: Tensor) -> Tensor:
    """Return dy^T x [E D]; oneDNN is up to 1.5 times as fast with the narrower factor first."""
    return _product(dy.T, x.T) if dy.shape[1] <= x.shape[1] else _product(x.T, dy.T).T


class _Linear(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # pyright: ignore
        """Return x W^T + b."""
        ctx.save_for_backward(x, weight)
        y = _product(x.reshape(-1, x.shape[-1]), weight)
        y = y if bias is None else y.add_(bias)
        return y.view(*x.shape[:-1], len(weight))

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        """Return the gradients of x, the weight and the bias that are asked for."""
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        rows, dy = x.reshape(-1, x.shape[-1]), grad.reshape(-1, grad.shape[-1])
        dx = _product(dy, weight.T).view(x.shape) if of_x else None
        return dx, _of_weight(dy, rows) if of_weight else None, dy.sum(0) if of_bias else None
