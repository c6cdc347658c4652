"""The delta rule for a CPU in C (native.c): step by step, in place of chunks and triangular systems."""

from collections.abc import Sequence
from pathlib import Path

import torch.nn.functional as F
from torch import Tensor

from zoo.kernels.common.native import Native, drawn
from zoo.kernels.common.recurrence import BLOCK, Recurrence
from zoo.kernels.delta_rule.chunked import delta_rule_chunked


def delta_rule_native(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor | None, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Compute the delta rule step by step in C."""
    if log_decay is None:
        log_decay = beta.new_zeros(1).expand_as(beta)
    if state is None:
        state = k.new_zeros(*k.shape[:2], k.shape[3], v.shape[3])
    y, last, _ = _DeltaRule.apply(q, k, v, beta[..., None], log_decay[..., None], state)  # pyright: ignore
    return y, last


def _inputs() -> list[Tensor]:
    """Draw sizes that are no multiple of what a register holds, with two writes a read."""
    B, H, T, K, V = 2, 3, 2 * BLOCK + 6, 5, 19
    q, k, v = drawn((B, H, T // 2, K), (B, H, T, K), (B, H, T, V))
    beta, log_decay, state = drawn((B, H, T), (B, H, T), (B, H, K, V))
    return [q, F.normalize(k, dim=-1), v, beta.sigmoid(), -log_decay.abs(), state]


class _DeltaRule(Recurrence):
    native = Native(Path(__file__).with_suffix(".c"), delta_rule_native, delta_rule_chunked, _inputs)

    @staticmethod
    def number(given: Sequence[Tensor]) -> int:
        """Return the number of writes before each query reads."""
        return given[1].shape[2] // given[0].shape[2]


NATIVE = _DeltaRule.native
absent, unfit = NATIVE.absent, NATIVE.unfit
