"""Test-time training: the state is a small model, trained on each key and value by gradient descent."""

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import op
from zoo.kernels.ttt.reference import Weights

OP = op(__name__, "reference", "dual")


def ttt(
    q: Float[Tensor, "B H T C"],
    k: Float[Tensor, "B H T C"],
    v: Float[Tensor, "B H T C"],
    lr: Float[Tensor, "B H T"],
    scale: Float[Tensor, "M"],
    norm: tuple[Float[Tensor, "H 1 C"], Float[Tensor, "H 1 C"]],
    weights: Weights,
    sums: Weights | None = None,
    offset: int = 0,
) -> tuple[Float[Tensor, "B H T C"], Weights, Weights | None]:
    """Return y_i = q_i + LN(f(q_i; W_start - scale_i sum_{j<=i} lr_j grad_j)), in mini-batches of M tokens.

    f: layers of `weights` (a matrix [.. H in out] and a bias [.. H 1 out] each), GELU between them.
    grad_j: of 1/2 |LN(f(k_j)) - (v_j - k_j)|^2 at W_start, the weights at the mini-batch's start.
    norm: LN's weight and bias.
    sums: the lr_j grad_j so far, where the `offset` tokens before q end inside a mini-batch, else None.
    After y come the weights at the start of the mini-batch that is open or comes next, and its sums (None: it
    has not begun).  All are computed in float32 at least, outside of any autocast.
    """
    wide = torch.promote_types(q.dtype, torch.float32)
    with torch.autocast(q.device.type, enabled=False):
        q, k, v, lr, scale = (x.to(wide) for x in (q, k, v, lr, scale))
        norm, weights = (norm[0].to(wide), norm[1].to(wide)), tuple(w.to(wide) for w in weights)
        return OP.run("dual", q, k, v, lr, scale, norm, weights, sums, offset)


__all__ = ["OP", "Weights", "ttt"]
