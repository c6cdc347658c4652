"""Compute cross-entropy a few rows at a time: their logits fit a cache and give both gradients at once.

Torch's own chunked form (F.linear_cross_entropy with options) consumes its gradients in place and does not
work under vmap.  Here the forward computes both gradients for an outer gradient of one, and the backward
scales them, so that no logits outlive their chunk.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd import Function

from zoo.kernels.common.first_order import first_order
from zoo.kernels.common.folding import all_members_first
from zoo.kernels.common.precision import autocast
from zoo.kernels.linear_cross_entropy.reference import IGNORED

CHUNK = {"cpu": 2**21}  # logits at once: 8 MB of float32, which stay in the cache
CHUNK_ELSEWHERE = 2**27  # logits at once, so that there are few launches
IN_TURN = ("cpu",)  # where stacked members take turns: the cache holds the logits of one


def linear_cross_entropy_chunked(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    """Return the mean cross-entropy, in nats, of the rows not IGNORED; first derivatives only."""
    mean = _LinearCrossEntropy.apply(x, weight, target)[0]
    if x.device.type in IN_TURN:
        return mean
    return mean * (target.shape[0] / (target != IGNORED).sum(dtype=mean.dtype))  # by 1 if none is ignored


def answer_scores(
    x: Float[Tensor, "N D"], weight: Float[Tensor, "V D"], target: Int[Tensor, " N"]
) -> tuple[Float[Tensor, " N"], Int[Tensor, " N"]]:
    """Return, without gradients, the cross-entropy of each answer, in nats, and the most likely token.

    The loss of an answer that is IGNORED is 0.
    """
    losses, best = [], []
    ignored, target = target == IGNORED, target.clamp(min=0)
    for rows in _chunks(x, weight):
        logits = (x[rows] @ weight.T).to(torch.promote_types(x.dtype, torch.float32))
        picked = logits.gather(1, target[rows, None])[:, 0]
        losses.append(logits.logsumexp(1) - picked)
        best.append(logits.argmax(1))
    return torch.cat(losses).masked_fill_(ignored, 0), torch.cat(best)


def _chunks(x: Tensor, weight: Tensor) -> list[slice]:
    size = max(1, CHUNK.get(x.device.type, CHUNK_ELSEWHERE) // weight.shape[0])
    return [slice(start, start + size) for start in range(0, x.shape[0], size)]


class _LinearCrossEntropy(Function):
    @staticmethod
    def forward(x: Tensor, weight: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # pyright: ignore
        """Return the mean loss and both of its gradients."""
        x, weight, wanted = autocast(x), autocast(weight), target != IGNORED
        if x.device.type not in IN_TURN:
            # all rows, without waiting to learn which are wanted: the others count as 0 in the mean
            ignored = ~wanted[..., None]
            of = _of_members if x.ndim == 3 else _of_rows
            losses, dx, dw = of(x.masked_fill(ignored, 0), weight, target.clamp(min=0))
            return losses.where(wanted, 0).mean(-1), dx.masked_fill_(ignored, 0), dw
        if wanted.all():
            losses, dx, dw = _of_rows(x, weight, target)
        else:
            losses, of_wanted, dw = _of_rows(x[wanted], weight, target[wanted])
            dx = torch.zeros_like(x)
            dx[wanted] = of_wanted
        return losses.mean(), dx, dw

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(*output[1:])
        ctx.mark_non_differentiable(*output[1:])
        ctx.dtypes = inputs[0].dtype, inputs[1].dtype

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor, *unused: Tensor | None) -> tuple[Tensor, Tensor, None]:  # pyright: ignore
        """Scale the gradients that forward has made."""
        del unused
        dx, dw = ctx.saved_tensors
        grad = grad[..., None, None]
        return (dx * grad).to(ctx.dtypes[0]), (dw * grad).to(ctx.dtypes[1]), None

    @staticmethod
    def vmap(  # pyright: ignore[reportIncompatibleMethodOverride]
        info: Any, in_dims: tuple[int | None, ...], *inputs: Tensor
    ) -> tuple[tuple[Tensor, ...], tuple[int, int, int]]:
        """Compute all members at once, or in turn on a CPU."""
        stacked = all_members_first(info.batch_size, in_dims, inputs)
        if inputs[0].device.type not in IN_TURN and stacked[0].ndim == 3:
            return _LinearCrossEntropy.apply(*stacked), (0, 0, 0)
        outputs = [_LinearCrossEntropy.apply(*member) for member in zip(*stacked, strict=True)]
        return tuple(torch.stack(parts) for parts in zip(*outputs, strict=True)), (0, 0, 0)


def _of_rows(
    x: Float[Tensor, "N D"], weight: Float[Tensor, "V D"], target: Int[Tensor, " N"]
) -> tuple[Float[Tensor, " N"], Float[Tensor, "N D"], Float[Tensor, "V D"]]:
    """Return the losses, and the gradients of their mean."""
    wide, mean = torch.promote_types(x.dtype, torch.float32), 1 / x.shape[0]
    dx, dw = torch.empty_like(x), torch.zeros_like(weight, dtype=wide)
    losses, chunks = x.new_empty(x.shape[0], dtype=wide), _chunks(x, weight)
    buffer = x.new_empty(min(chunks[0].stop, x.shape[0]), weight.shape[0])
    of_chunk = None if x.dtype == wide else torch.empty_like(weight)
    for rows in chunks:
        p = buffer[: x[rows].shape[0]]
        losses[rows] = _to_gradient(x[rows], weight, target[rows], p)
        torch.addmm(dx[rows], p, weight, beta=0, alpha=mean, out=dx[rows])
        if of_chunk is None:
            dw.addmm_(p.T, x[rows], alpha=mean)
        else:  # sum over chunks in float32: rounded at each chunk, the sum is three times as far off
            dw.add_(torch.mm(p.T, x[rows], out=of_chunk), alpha=mean)
    return losses, dx, dw


def _of_members(
    x: Float[Tensor, "P N D"], weight: Float[Tensor, "P V D"], target: Int[Tensor, "P N"]
) -> tuple[Float[Tensor, "P N"], Float[Tensor, "P N D"], Float[Tensor, "P V D"]]:
    """Return the losses of each member and the gradients of their mean, by one product for all of them."""
    dx, dw, mean = torch.empty_like(x), torch.zeros_like(weight), 1 / x.shape[1]
    size = max(1, CHUNK.get(x.device.type, CHUNK_ELSEWHERE) // weight.shape[:2].numel())
    losses = []
    for rows, wanted, out in zip(x.split(size, 1), target.split(size, 1), dx.split(size, 1), strict=True):
        p = x.new_empty(*rows.shape[:2], weight.shape[1])
        losses.append(_to_gradient(rows, weight, wanted, p))
        out.copy_(p @ weight).mul_(mean)
        dw.baddbmm_(p.mT, rows, alpha=mean)
    return torch.cat(losses, 1), dx, dw


def _to_gradient(
    x: Float[Tensor, "*P N D"], weight: Float[Tensor, "*P V D"], target: Tensor, p: Float[Tensor, "*P N V"]
) -> Float[Tensor, "*P N"]:
    """Return the losses of a chunk; `p` becomes softmax minus one-hot, the gradient of the logits."""
    torch.matmul(x, weight.mT, out=p)
    losses = (_looking if p.device.type in IN_TURN else _unseen)(x, weight, target, p)
    answers = torch.arange(target.numel(), device=p.device), target.flatten()
    p.view(-1, p.shape[-1])[answers] -= 1  # scatter_ and scatter_add_ are slow in bfloat16
    return losses


def _looking(
    x: Float[Tensor, "N D"], weight: Float[Tensor, "V D"], target: Tensor, p: Float[Tensor, "N V"]
) -> Float[Tensor, " N"]:
    """Return the losses without another pass over `p`, unless a value underflows; `p` becomes softmax(p)."""
    share = torch.softmax(p, dim=-1, out=p).gather(-1, target[:, None])[:, 0]
    losses = -share.to(torch.promote_types(p.dtype, torch.float32)).log()
    lost = share < torch.finfo(p.dtype).smallest_normal
    if lost.any():
        losses[lost] = F.cross_entropy((x[lost] @ weight.T).to(losses.dtype), target[lost], reduction="none")
    return losses


def _unseen(
    x: Float[Tensor, "*P N D"], weight: Float[Tensor, "*P V D"], target: Tensor, p: Float[Tensor, "*P N V"]
) -> Float[Tensor, "*P N"]:
    """Return the losses without reading a value back from the GPU; `p` becomes softmax(p)."""
    wide = torch.promote_types(p.dtype, torch.float32)
    wanted, top = p.gather(-1, target[..., None])[..., 0], p.amax(-1).to(wide)
    torch.softmax(p, dim=-1, out=p)
    # logsumexp without a further pass of exp: log p_max = max - logsumexp, and p_max never underflows
    return top - p.amax(-1).to(wide).log() - wanted
