"""The diagonal-plus-low-rank delta rule for a CPU in C (native.c): step by step."""

from pathlib import Path

from torch import Tensor

from zoo.kernels.common.native import Native, drawn
from zoo.kernels.common.recurrence import BLOCK, Recurrence
from zoo.kernels.dplr_delta_rule.chunked import dplr_delta_rule_chunked


def dplr_delta_rule_native(
    q: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, log_decay: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute the recurrence step by step in C."""
    if state is None:
        state = k.new_zeros(*k.shape[:2], k.shape[3], v.shape[3])
    y, last, _ = _Rule.apply(q, k, v, a, b, log_decay, state)  # pyright: ignore
    return y, last


def _inputs() -> list[Tensor]:
    """Draw sizes that are no multiple of what a register holds."""
    B, H, T, K, V = 2, 3, 2 * BLOCK + 5, 5, 19
    q, k, a, b, log_decay = drawn(*[(B, H, T, K)] * 5)
    v, state = drawn((B, H, T, V), (B, H, K, V))
    return [q, k, v, a / 8, b / 8, -log_decay.abs(), state]


class _Rule(Recurrence):
    native = Native(
        Path(__file__).with_suffix(".c"), dplr_delta_rule_native, dplr_delta_rule_chunked, _inputs
    )


NATIVE = _Rule.native
absent, unfit = NATIVE.absent, NATIVE.unfit
