"""Gated linear attention with one decay a head and token in Triton: `linear_attention.triton_scan` has the
kernels.  It is what Mamba-2's SSD, RetNet, lightning attention and the mLSTM compute."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.linear_attention.triton_scan import DTYPES, WITHOUT_PRODUCTS, scan, unfit_for_scan

PROVEN: str | None = None  # no card has run the gpu tests yet


def gated_linear_attention_triton(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T V"],
    log_decay: Float[Tensor, "B H T"],
    state: Float[Tensor, "B H K V"] | None = None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H K V"]]:
    """What `gated_linear_attention_reference` says; y has the dtype of v, the state is float32."""
    y, last, _ = scan(q, k, v, log_decay, None, state, None)
    return y, last


def unfit(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, state: Tensor | None = None) -> str | None:
    """Why these inputs cannot go through the kernels, in words; None: they can."""
    if log_decay.ndim == q.ndim:
        return "a decay per channel has no Triton form yet"
    if log_decay.shape != q.shape[:-1]:
        return f"log_decay must be [B H T], and is {list(log_decay.shape)}"
    return unfit_for_scan(q, k, v, log_decay, state)


def cases(few: bool) -> Iterator[tuple[str, torch.dtype, Callable[[], None]]]:
    """Calls that reach every kernel in every configuration, on "meta"; few: a quick choice of them."""
    sizes = ((64, 64),) if few else ((16, 64), (32, 33), (64, 64), (256, 128))
    for (keys, width), dtype in product(sizes, DTYPES):
        shapes = ((1024, keys), (1024, keys), (1024, width))
        inputs = [torch.empty(4, 8, *shape, dtype=dtype, device="meta").requires_grad_() for shape in shapes]
        state = torch.empty(4, 8, keys, width, device="meta", requires_grad=True)
        log_decay = torch.empty(4, 8, 1024, device="meta")
        yield f"K {keys}, V {width}", dtype, partial(_both_ways, *inputs, log_decay.requires_grad_(), state)
        if not few and keys == 64:
            yield (
                f"K {keys}, V {width}, fixed",
                dtype,
                partial(_both_ways, *inputs, log_decay.detach(), state),
            )


def _both_ways(*inputs: Tensor) -> None:
    y, last = gated_linear_attention_triton(*inputs)
    (y.sum() + last.sum()).backward()


__all__ = ["PROVEN", "WITHOUT_PRODUCTS", "cases", "gated_linear_attention_triton", "unfit"]
