"""The delta rule: a memory that is corrected by what it would have answered, and may decay."""

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import Op
from zoo.kernels.delta_rule.chunked import delta_rule_chunked
from zoo.kernels.delta_rule.reference import delta_rule_reference

OP = Op("delta_rule", {"reference": delta_rule_reference, "chunked": delta_rule_chunked})


def delta_rule(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H n*T K"],
    v: Float[Tensor, "B H n*T V"],
    beta: Float[Tensor, "B H n*T"],
    log_decay: Float[Tensor, "B H n*T"] | None = None,
    state: Float[Tensor, "B H K V"] | None = None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H K V"]]:
    """S <- exp(log_decay_t) S;  S <- S + k_t (beta_t (v_t - S^T k_t))^T;  y_t = S^T q_t.

    n: writes before each query reads, 1 for the rule as published first.
    log_decay: not positive; None: nothing is forgotten.
    Returns y and the last S, both computed in float32 at least, outside of any autocast.  Keys should be of
    norm 1: I - beta k k^T then has eigenvalues in [-1, 1] for beta in [0, 2], and no product of them grows.
    """
    usual = "reference" if k.shape[2] == 1 else "chunked"
    wide = torch.promote_types(v.dtype, torch.float32)
    with torch.autocast(q.device.type, enabled=False):
        q, k, v, beta = (x.to(wide) for x in (q, k, v, beta))
        log_decay, state = (x if x is None else x.to(wide) for x in (log_decay, state))
        return OP.run(usual, q, k, v, beta, log_decay, state)


__all__ = ["OP", "delta_rule", "delta_rule_chunked", "delta_rule_reference"]
