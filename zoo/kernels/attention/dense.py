"""Softmax attention in half precision that writes out the weights, one block of queries after another.

On a CPU torch's fused kernel is slower in bfloat16 than in float32, most of all its backward pass.  Here too,
logits and softmax are float32 and the other products take half-precision factors.  But all B H T S weights
are kept for the backward pass, so this form is for sequences of hundreds of tokens.
With p the weights and dp = dy v^T,

    dv = p^T dy,   ds = p (dp - sum of p dp over keys) / sqrt C,   dq = ds k,   dk = ds^T q.

The letters are those of `attention`.
"""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd import Function

from zoo.kernels.common.first_order import first_order
from zoo.kernels.common.parts import Part, parts
from zoo.kernels.common.precision import wide

BLOCK = 64  # queries; a causal block reads only the keys up to its end
AT_ONCE = 2**18  # logits in float32: 1 MB, which stays in the cache
MOST = 2**26  # weights in all; with more, memory costs more time than the products save


def dense_is_quicker(q: Tensor, k: Tensor, mask: Tensor | None) -> bool:
    """Return whether this form is faster here: small inputs in half precision, trained on a CPU."""
    half = q.device.type == "cpu" and q.dtype in (torch.bfloat16, torch.float16)
    trains = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad)
    small = q.shape[:-1].numel() * k.shape[-2] <= MOST
    return half and trains and small and (mask is None or mask.dtype == torch.bool)


def attention_dense(
    q: Float[Tensor, "B H T C"],
    k: Float[Tensor, "B H S C"],
    v: Float[Tensor, "B H S C"],
    mask: Bool[Tensor, "#B #H T S"] | None,
    is_causal: bool,
) -> Float[Tensor, "B H T C"]:
    """Return softmax(q k / sqrt C) v over the keys that `mask` shows, or over those up to a query's token."""
    if mask is not None:
        mask = mask.expand(*q.shape[:-1], k.shape[2]).flatten(0, 1)
    with torch.autocast(q.device.type, enabled=False):  # autocast would round the logits
        y = _Attention.apply(*(x.flatten(0, 1) for x in (q, k, v)), mask, is_causal)[0]
    return y.unflatten(0, q.shape[:2])


def _parts(q: Tensor, k: Tensor, is_causal: bool) -> Iterator[Part]:
    length, keys = q.shape[1], k.shape[1]
    size, keys = (BLOCK, None) if is_causal else (length, keys)
    return parts(q.shape[0], length, size, AT_ONCE, keys)


def _weights(q: Tensor, k: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
    """Return a part's weights in the dtype of q; if causal, its last query and its last key are one token."""
    logits = torch.bmm(wide(q) * q.shape[-1] ** -0.5, wide(k).mT)
    if is_causal:
        size = q.shape[1]
        logits[..., -size:] += logits.new_full((size, size), -torch.inf).triu_(1)
    if mask is not None:
        logits.masked_fill_(~mask, -torch.inf)
    return torch.softmax(logits, -1).to(q.dtype)


class _Attention(Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool
    ) -> tuple[Tensor, Tensor]:
        """Return y, and the weights that backward reads."""
        y, weights = v.new_empty(*q.shape[:2], v.shape[2]), q.new_empty(*q.shape[:2], k.shape[1])
        for rows, queries, keys in _parts(q, k, is_causal):
            shown = None if mask is None else mask[rows, queries, keys]
            p = _weights(q[rows, queries], k[rows, keys], shown, is_causal)
            weights[rows, queries, keys] = p
            y[rows, queries] = torch.bmm(p, v[rows, keys])
        return y, weights

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.is_causal = inputs[4]
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[:3], output[1])

    @staticmethod
    @first_order
    def backward(ctx: Any, dy: Tensor | None, _: None) -> tuple[Tensor | None, ...]:  # pyright: ignore
        """Return the gradients of q, k and v, part by part."""
        if dy is None:
            return None, None, None, None, None
        q, k, v, weights = ctx.saved_tensors
        dq, dk, dv = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for rows, queries, keys in _parts(q, k, ctx.is_causal):
            p, up = weights[rows, queries, keys], dy[rows, queries]
            dp = torch.bmm(up, v[rows, keys].mT)
            ds = torch.ops.aten._softmax_backward_data(dp, p, -1, p.dtype).mul_(q.shape[-1] ** -0.5)
            dq[rows, queries] = torch.bmm(ds, k[rows, keys])
            dk[rows, keys] += torch.bmm(ds.mT, q[rows, queries])
            dv[rows, keys] += torch.bmm(p.mT, up)
        return dq, dk, dv, None, None
