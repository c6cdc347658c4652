"""RWKV-4's average of values, with weights exp(key) that decay at a fixed rate per channel."""

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import op
from zoo.kernels.wkv4.reference import Averages

OP = op(__name__, "reference", "fused_loop")


def wkv4(
    k: Float[Tensor, "B T D"],
    v: Float[Tensor, "B T D"],
    log_decay: Float[Tensor, "D"],
    bonus: Float[Tensor, "D"],
    state: Averages | None = None,
) -> tuple[Float[Tensor, "B T D"], Averages]:
    """Return the average y_t = (sum_{i<t} e_i v_i + e_t v_t) / (sum_{i<t} e_i + e_t), with the past's weights
    e_i = exp((t - 1 - i) log_decay + k_i) and the present one's, e_t = exp(bonus + k_t); and the last state.

    log_decay: at most 0.  state: the sums over earlier tokens; None: there are none.
    """
    usual = "reference" if k.shape[1] == 1 else "fused_loop"
    return OP.run(usual, k, v, log_decay, bonus, state)


__all__ = ["OP", "Averages", "wkv4"]
