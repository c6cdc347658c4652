"""The delta rule: a matrix state, which may decay, whose value for each key is moved toward a new value."""

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import op
from zoo.kernels.common.precision import wide
from zoo.kernels.delta_rule import native

OP = op(__name__, "reference", "native", "chunked", others=("fla",), prepare=wide)


def delta_rule(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H n*T K"],
    v: Float[Tensor, "B H n*T V"],
    beta: Float[Tensor, "B H n*T"],
    log_decay: Float[Tensor, "B H n*T"] | None = None,
    state: Float[Tensor, "B H K V"] | None = None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H K V"]]:
    """Move the value that S holds for each key by beta toward a new one; return y and the last S:
    S <- exp(log_decay_t) S;  S <- S + k_t (beta_t (v_t - S^T k_t))^T;  y_t = S^T q_t.

    n: the writes before each query reads; 1 in the rule as first published.  log_decay <= 0; None: no decay.
    Autocast is off.  Inputs may be in half precision: torch computes in float32, and returns y and the last S
    in it; fla multiplies in q's half precision or bfloat16, sums in float32, and returns y in the dtype of v.
    Keys should be of norm 1: I - beta k k^T then has eigenvalues in [-1, 1] for beta in [0, 2], and no
    product of them grows.
    """
    inputs = (q, k, v, beta, log_decay, state)
    of_many = "chunked" if native.unfit(*inputs) else "native"
    with torch.autocast(q.device.type, enabled=False):
        return OP.run("reference" if k.shape[2] == 1 else of_many, *inputs)
