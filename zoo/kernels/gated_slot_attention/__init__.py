"""Softmax attention over a fixed number of slots, each a decaying sum of keys and one of values."""

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import op
from zoo.kernels.gated_slot_attention import native
from zoo.kernels.gated_slot_attention.reference import Slots

OP = op(__name__, "reference", "native", "chunked")


def gated_slot_attention(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T V"],
    write: Float[Tensor, "B H T M"],
    log_decay: Float[Tensor, "B H T M"],
    state: Slots | None = None,
) -> tuple[Float[Tensor, "B H T V"], Slots]:
    """Return y_t = Values_t^T softmax(Keys_t q_t), attention over M slots, and the last (Keys, Values):
    Keys_t = diag(exp(log_decay_t)) Keys_{t-1} + write_t k_t^T, and Values_t likewise with v_t.

    M slots; log_decay <= 0.  state: (Keys, Values) before the first token; None: zeros.  No scale inside.
    """
    inputs = (q, k, v, write, log_decay)
    of_many = "chunked" if native.unfit(*inputs, *(state or ())) else "native"
    return OP.run("reference" if q.shape[-2] == 1 else of_many, *inputs, state)


__all__ = ["OP", "Slots", "gated_slot_attention"]
