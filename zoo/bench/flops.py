"""The products that a computation really makes, counted by torch while it runs."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

ATEN = torch.ops.aten


def flops(run: Callable[[], object]) -> float:
    """Run it once and count its products; a multiply-add counts 2, of causal attention the needed half."""
    with FlopCounterMode(display=False, custom_mapping=CPU_FORMULAS) as counter:
        run()
    return float(counter.get_total_flops())


def _addmm(into: Any, a: Any, b: Any, **settings: Any) -> int:
    del into, settings
    return 2 * a[0] * a[1] * b[1]


def _attention(q: Any, k: Any, v: Any, dropout: float = 0.0, causal: bool = False, **settings: Any) -> int:
    del dropout, settings
    return sdpa_flop_count(q, k, v) // (1 + causal)


def _attention_backward(
    grad: Any, q: Any, k: Any, v: Any, y: Any, sums: Any, dropout: float, causal: bool, **settings: Any
) -> int:
    """Five products for the forward's two: the scores are made again."""
    del grad, y, sums
    return 5 * _attention(q, k, v, dropout, causal, **settings) // 2


CPU_FORMULAS: dict[Any, Any] = {  # torch counts neither in-place products nor its CPU attention
    ATEN.addmm_: _addmm,
    ATEN._scaled_dot_product_flash_attention_for_cpu: _attention,
    ATEN._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
}
