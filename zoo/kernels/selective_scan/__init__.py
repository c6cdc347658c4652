"""Mamba's selective scan: a diagonal state space model whose step size, B and C depend on the token."""

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import op
from zoo.kernels.selective_scan import native

OP = op(__name__, "reference", "native", "fused_loop", others=("triton", "mamba_ssm"))


def selective_scan(
    x: Float[Tensor, "B T D"],
    dt: Float[Tensor, "B T D"],
    A: Float[Tensor, "D N"],
    B: Float[Tensor, "B T N"],
    C: Float[Tensor, "B T N"],
    state: Float[Tensor, "B D N"] | None = None,
) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B D N"]]:
    """Compute h_t = exp(dt_t A) h_{t-1} + (dt_t x_t) B_t^T,  y_t = h_t C_t; return y and the last h."""
    inputs = (x, dt, A, B, C, state)
    usual = "reference" if x.shape[1] == 1 else "fused_loop" if native.unfit(*inputs) else "native"
    return OP.run(usual, *inputs)
