"""Gated linear attention in Triton.  One decay a head and token, as in Mamba-2's SSD, RetNet, lightning
attention and the mLSTM: the kernels of `linear_attention.triton_scan`.  One a key channel too, as in GLA and
HGRN2: those of `triton_channels`."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.gated_linear_attention import triton_channels
from zoo.kernels.gated_linear_attention.triton_channels import scan_by_channel
from zoo.kernels.linear_attention import triton_scan
from zoo.kernels.linear_attention.triton_scan import DTYPES, scan, unfit_for_scan

WITHOUT_PRODUCTS = triton_scan.WITHOUT_PRODUCTS | triton_channels.WITHOUT_PRODUCTS


def gated_linear_attention_triton(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T V"],
    log_decay: Float[Tensor, "B H T"] | Float[Tensor, "B H T K"],
    state: Float[Tensor, "B H K V"] | None = None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H K V"]]:
    """What `gated_linear_attention_reference` says; y has the narrowest dtype of q, k and v, the
    state is float32."""
    if log_decay.ndim == q.ndim:
        return scan_by_channel(q, k, v, log_decay, state)
    y, last, _ = scan(q, k, v, log_decay, None, state, None)
    return y, last


def unfit(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, state: Tensor | None = None) -> str | None:
    """Why these inputs cannot go through the kernels, in words; None: they can."""
    if log_decay.shape not in (q.shape, q.shape[:-1]):
        return f"log_decay must be [B H T] or [B H T K], and is {list(log_decay.shape)}"
    return unfit_for_scan(q, k, v, log_decay, state)


def cases(few: bool) -> Iterator[tuple[str, torch.dtype, Callable[[], None]]]:
    """Calls that reach every kernel in every configuration, on "meta"; few: a quick choice of them."""
    sizes = ((64, 64),) if few else ((16, 64), (32, 33), (64, 64), (256, 128))
    for (keys, width), dtype in product(sizes, DTYPES):
        inputs, state = _inputs(keys, width, dtype)
        log_decay = torch.empty(4, 8, 1024, device="meta")
        yield f"K {keys}, V {width}", dtype, partial(_both_ways, *inputs, log_decay.requires_grad_(), state)
        if not few and keys == 64:
            yield (
                f"K {keys}, V {width}, fixed",
                dtype,
                partial(_both_ways, *inputs, log_decay.detach(), state),
            )
    sizes = ((64, 64),) if few else ((16, 64), (32, 33), (64, 64), (128, 128))
    for (keys, width), dtype in product(sizes, DTYPES):
        inputs, state = _inputs(keys, width, dtype)
        log_decay = torch.empty(4, 8, 1024, keys, device="meta", requires_grad=True)
        yield f"K {keys}, V {width}, by channel", dtype, partial(_both_ways, *inputs, log_decay, state)


def _inputs(keys: int, width: int, dtype: torch.dtype) -> tuple[list[Tensor], Tensor]:
    """q, k and v, and a state."""
    shapes = ((1024, keys), (1024, keys), (1024, width))
    inputs = [torch.empty(4, 8, *shape, dtype=dtype, device="meta").requires_grad_() for shape in shapes]
    return inputs, torch.empty(4, 8, keys, width, device="meta", requires_grad=True)


def _both_ways(*inputs: Tensor) -> None:
    y, last = gated_linear_attention_triton(*inputs)
    (y.sum() + last.sum()).backward()


__all__ = ["WITHOUT_PRODUCTS", "cases", "gated_linear_attention_triton", "unfit"]
