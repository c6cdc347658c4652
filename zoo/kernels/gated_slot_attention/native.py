"""Gated slot attention on a CPU: logits in C (native.c), values by the C of gated linear attention."""

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from zoo.kernels.common.native import Native, drawn
from zoo.kernels.common.recurrence import BLOCK, Recurrence
from zoo.kernels.gated_linear_attention import native as gla
from zoo.kernels.gated_slot_attention.chunked import logits_chunked
from zoo.kernels.gated_slot_attention.reference import Slots


def gated_slot_attention_native(
    q: Tensor, k: Tensor, v: Tensor, write: Tensor, log_decay: Tensor, state: Slots | None = None
) -> tuple[Tensor, Slots]:
    """Make the logits step by step, then read the values step by step."""
    keys, values = state or (q.new_zeros(*q.shape[:2], write.shape[3], k.shape[3]), None)
    logits, keys = _logits_native(q, k, write, log_decay, keys)
    y, values = gla.gated_linear_attention_native(logits.softmax(-1), write, v, log_decay, values)
    return y, (keys, values)


def _logits_native(
    q: Tensor, k: Tensor, write: Tensor, log_decay: Tensor, keys: Tensor
) -> tuple[Tensor, Tensor]:
    logits, keys, _ = _Logits.apply(q, write, k, log_decay, keys)  # pyright: ignore
    return logits, keys


def _inputs() -> list[Tensor]:
    """Draw sizes that are no multiple of what a register holds."""
    B, H, T, M, K = 2, 3, 2 * BLOCK + 5, 5, 19
    q, k, write, log_decay, keys = drawn((B, H, T, K), (B, H, T, K), (B, H, T, M), (B, H, T, M), (B, H, M, K))
    return [q, k, write, -log_decay.abs(), keys]


class _Logits(Recurrence):
    """Map q, write, k, log_decay and the first keys, a slot in each row, to logits and the last keys."""

    native = Native(Path(__file__).with_suffix(".c"), _logits_native, logits_chunked, _inputs, gla.NATIVE)

    @staticmethod
    def channels(given: Sequence[Tensor]) -> int:
        """Return the number of slots."""
        return given[1].shape[3]


NATIVE = _Logits.native
absent, unfit = NATIVE.absent, NATIVE.unfit
