"""Linear attention in Triton, with or without a denominator: `triton_scan` has the kernels."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.linear_attention.triton_scan import DTYPES, WITHOUT_PRODUCTS, scan, unfit_for_scan


def linear_attention_triton(
    phi_q: Float[Tensor, "B H T F"],
    phi_k: Float[Tensor, "B H T F"],
    v: Float[Tensor, "B H T V"],
    eps: float | None,
    kv: Float[Tensor, "B H F V"] | None = None,
    z: Float[Tensor, "B H F"] | None = None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H F V"], Float[Tensor, "B H F"] | None]:
    """What `linear_attention_reference` says; y has the dtype of v, the sums are float32."""
    return scan(phi_q, phi_k, v, None, eps, kv, z)


def unfit(
    phi_q: Tensor,
    phi_k: Tensor,
    v: Tensor,
    eps: float | None,
    kv: Tensor | None = None,
    z: Tensor | None = None,
) -> str | None:
    """Why these inputs cannot go through the kernels, in words; None: they can."""
    return unfit_for_scan(phi_q, phi_k, v, kv, z)


def cases(few: bool) -> Iterator[tuple[str, torch.dtype, Callable[[], None]]]:
    """Calls that reach every kernel in every configuration, on "meta"; few: a quick choice of them."""
    sizes = ((153, 64),) if few else ((16, 64), (32, 33), (153, 64), (256, 128))
    for (features, width), dtype, eps in product(sizes, DTYPES, (1e-6,) if few else (1e-6, None)):
        shapes = ((1024, features), (1024, features), (1024, width))
        inputs = [torch.empty(4, 8, *shape, dtype=dtype, device="meta").requires_grad_() for shape in shapes]
        kv = torch.empty(4, 8, features, width, device="meta", requires_grad=True)
        named = f"F {features}, V {width}{'' if eps is None else ', denominator'}"
        yield named, dtype, partial(_both_ways, *inputs, eps, kv, kv[..., 0])


def _both_ways(q: Tensor, k: Tensor, v: Tensor, eps: float | None, kv: Tensor, z: Tensor) -> None:
    y, last_kv, last_z = linear_attention_triton(q, k, v, eps, kv, z)
    (y.sum() + last_kv.sum() + (0.0 if last_z is None else last_z.sum())).backward()


__all__ = ["WITHOUT_PRODUCTS", "cases", "linear_attention_triton", "unfit"]
