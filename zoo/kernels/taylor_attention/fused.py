"""Taylor attention with few passes over the T x T weights, and a backward pass of its own.

With r = (u + 1) / sqrt 2 the weight 1 + u + u^2/2 is r^2 + 1/2, so that no feature is ever formed.  Below
a few hundred tokens this is cheaper than the recurrence in chunks: T (C + V) products a token against 4 F V.
"""

from typing import Any

from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function


def taylor_attention_fused(
    q: Float[Tensor, "... T C"], k: Float[Tensor, "... T C"], v: Float[Tensor, "... T V"], eps: float
) -> Float[Tensor, "... T V"]:
    """What `taylor_attention_reference` says, faster."""
    return _TaylorAttention.apply(q, k, v, eps)[0]


def taylor_weights(q: Float[Tensor, "... T C"], k: Float[Tensor, "... T C"]) -> Float[Tensor, "... T T"]:
    """1 + u + u^2/2 where the key is not later than the query, 0 elsewhere."""
    return _weights(_roots(q, k))


def _roots(q: Tensor, k: Tensor) -> Tensor:
    return (q @ k.mT).mul((2 * q.shape[-1]) ** -0.5).add(0.5**0.5).tril()


def _weights(roots: Tensor) -> Tensor:
    return roots.square() + roots.new_full(roots.shape[-2:], 0.5).tril()


class _TaylorAttention(Function):
    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, eps: float) -> tuple[Tensor, ...]:  # pyright: ignore
        roots = _roots(q, k)
        weights = _weights(roots)
        total = weights.sum(-1, keepdim=True).add_(eps)
        return (weights @ v).div_(total), total, roots, weights

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        y, *others = output
        ctx.mark_non_differentiable(*others)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[:3], y, *others)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: None) -> tuple[Tensor, Tensor, Tensor, None]:  # pyright: ignore
        q, k, v, y, total, roots, weights = ctx.saved_tensors
        grad = grad / total
        through_total = (grad * y).sum(-1, keepdim=True)
        du = (grad @ v.mT).sub_(through_total).mul_(roots).mul_((2 / q.shape[-1]) ** 0.5)  # dw = 2 r dr
        return du @ k, du.mT @ q, weights.mT @ grad, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple, q: Tensor, k: Tensor, v: Tensor, eps: float) -> tuple:  # pyright: ignore
        """Members are one more leading dimension."""
        members = (
            x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            for x, dim in zip((q, k, v), in_dims, strict=False)
        )
        return _TaylorAttention.apply(*members, eps), (0, 0, 0, 0)
