"""Taylor attention with few passes over the T x T weights, and a backward pass of its own.

With r = (u + 1) / sqrt 2 the weight 1 + u + u^2/2 is r^2 + 1/2, so that no feature is ever formed.  Below
a few hundred tokens this is cheaper than the recurrence in chunks: T (C + V) products a token against 4 F V.
The weights are made in parts that fit the cache, and a block of queries reads only the keys up to its end.
r is kept for the backward pass.  N sequences: all leading dimensions in one.
"""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function

from zoo.kernels.common.first_order import first_order
from zoo.kernels.common.folding import all_members_first
from zoo.kernels.common.parts import Part, parts

BLOCK = 64  # queries
AT_ONCE = {"cpu": 2**18}  # weights, 1 MB of float32
AT_ONCE_ELSEWHERE = 2**26  # few launches


def taylor_attention_fused(q: Tensor, k: Tensor, v: Tensor, eps: float) -> Tensor:
    """Attend with few passes over the weights."""
    return _TaylorAttention.apply(q, k, v, eps)[0]


def taylor_weights(q: Float[Tensor, "... T C"], k: Float[Tensor, "... T C"]) -> Float[Tensor, "... T T"]:
    """Return 1 + u + u^2/2 where the key is not later than the query, 0 elsewhere."""
    roots = _roots(q, k)
    return (roots.square() + 0.5).tril()


def _roots(q: Float[Tensor, "... Q C"], k: Float[Tensor, "... S C"]) -> Float[Tensor, "... Q S"]:
    return (q @ k.mT).mul((2 * q.shape[-1]) ** -0.5).add(0.5**0.5)


def _parts(q: Float[Tensor, "N T C"]) -> Iterator[Part]:
    """Yield parts, or only one where all is small: there the number of calls costs more than their work."""
    count, length = q.shape[:2]
    at_once = AT_ONCE.get(q.device.type, AT_ONCE_ELSEWHERE)
    return parts(count, length, length if count * length**2 <= at_once else min(BLOCK, length), at_once)


def _causal(x: Float[Tensor, "N Q S"]) -> Float[Tensor, "N Q S"]:
    """Put zeros, in place, where a key is later than a query; the queries are the last of the keys."""
    size = x.shape[-2]
    x[..., -size:].mul_(torch.ones(size, size, dtype=x.dtype, device=x.device).tril_())  # vmap knows no tril_
    return x


def _part_weights(roots: Float[Tensor, "N Q S"]) -> Float[Tensor, "N Q S"]:
    return _causal(roots.square().add_(0.5))


def _sequences(*tensors: Float[Tensor, "... T X"]) -> list[Float[Tensor, "N T X"]]:
    return [x.reshape(-1, *x.shape[-2:]) for x in tensors]


class _TaylorAttention(Function):
    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, eps: float) -> tuple[Tensor, ...]:  # pyright: ignore
        """Return y, the sum of a query's weights, and the roots of the weights."""
        shape, (q, k, v) = v.shape, _sequences(q, k, v)
        y, total, roots = (
            torch.empty_like(v),
            v.new_empty(*v.shape[:2], 1),
            v.new_empty(*v.shape[:2], v.shape[1]),
        )
        one, scale = q.new_full((), 0.5**0.5), (2 * q.shape[-1]) ** -0.5
        for rows, queries, keys in _parts(q):
            r = _causal(torch.baddbmm(one, q[rows, queries], k[rows, keys].mT, alpha=scale))
            weights = _part_weights(r)
            sums = weights.sum(-1, keepdim=True).add_(eps)
            y[rows, queries] = torch.bmm(weights, v[rows, keys]).div_(sums)
            roots[rows, queries, keys], total[rows, queries] = r, sums
        return y.view(shape), total, roots

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[:3], *output)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor, *_: None) -> tuple[Tensor, Tensor, Tensor, None]:  # pyright: ignore
        """Return the gradients of q, k and v, part by part."""
        *inputs, total, roots = ctx.saved_tensors
        q, k, v, y, grad = _sequences(*inputs, grad)
        grad = grad / total
        through_total = (grad * y).sum(-1, keepdim=True)
        dq, dk, dv = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for rows, queries, keys in _parts(q):
            r, up = roots[rows, queries, keys], grad[rows, queries]
            dr = torch.bmm(up, v[rows, keys].mT).sub_(through_total[rows, queries]).mul_(r)  # dw = 2 r dr
            dq[rows, queries] = torch.bmm(dr, k[rows, keys])
            dk[rows, keys] += torch.bmm(dr.mT, q[rows, queries])
            dv[rows, keys] += torch.bmm(_part_weights(r).mT, up)
        scale = (2 / q.shape[-1]) ** 0.5
        return (
            dq.mul_(scale).view_as(inputs[0]),
            dk.mul_(scale).view_as(inputs[1]),
            dv.view_as(inputs[2]),
            None,
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple, q: Tensor, k: Tensor, v: Tensor, eps: float) -> tuple:  # pyright: ignore
        """Take members as one more leading dimension."""
        members = all_members_first(info.batch_size, in_dims[:3], (q, k, v))
        y, *others = _TaylorAttention.apply(*members, eps)
        return (y, *(x.unflatten(0, (info.batch_size, -1)) for x in others)), (0, 0, 0)
