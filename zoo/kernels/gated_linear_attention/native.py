"""Gated linear attention for a CPU in C (native.c): step by step, as chunks take many passes over memory."""

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from zoo.kernels.common.native import Native, drawn
from zoo.kernels.common.recurrence import BLOCK, Recurrence
from zoo.kernels.gated_linear_attention.chunked import gated_linear_attention_chunked


def gated_linear_attention_native(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute the recurrence step by step in C."""
    if log_decay.ndim < k.ndim:
        log_decay = log_decay[..., None]
    if state is None:
        state = q.new_zeros(*q.shape[:2], q.shape[3], v.shape[3])
    y, last, _ = _Attention.apply(q, k, v, log_decay, state)  # pyright: ignore
    return y, last


def _inputs() -> list[Tensor]:
    """Draw sizes that are no multiple of what a register holds."""
    B, H, T, K, V = 2, 3, 2 * BLOCK + 5, 5, 19
    q, k, v, log_decay, state = drawn((B, H, T, K), (B, H, T, K), (B, H, T, V), (B, H, T, K), (B, H, K, V))
    return [q, k, v, -log_decay.abs(), state]


class _Attention(Recurrence):
    native = Native(
        Path(__file__).with_suffix(".c"),
        gated_linear_attention_native,
        gated_linear_attention_chunked,
        _inputs,
    )

    @staticmethod
    def number(given: Sequence[Tensor]) -> int:
        """Return the number of decays of a head at a step: 1 or K."""
        return given[3].shape[3]


NATIVE = _Attention.native
absent, unfit = NATIVE.absent, NATIVE.unfit
