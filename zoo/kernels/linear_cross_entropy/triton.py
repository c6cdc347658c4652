"""The head's loss in Triton: logits are made in registers, tile by tile, as often as they are needed.

With l = x w^T, the forward pass keeps two numbers a row, the highest logit and the sum of exp(l - highest);
the backward pass makes p again:

    loss = mean over rows of (highest - l[target]) + log total,   p = exp(l - highest) / total,
    dl = (p - onehot) grad / N,   dx = dl w,   dw = dl^T x.

(One number, their logsumexp, would do, but rounding it costs p the digits that 1 - p needs.)  A program has
OWN rows of one matrix and lets the rows of the other pass by, OTHER at a time.  Where own rows alone would
leave a GPU idle, the passing rows are dealt to several programs, and their partial sums, in float32, are
added afterwards, in order: no atomics, the same bits each time.

What it costs, against the chunked form in torch, for N answers, V words and a width of D: this form makes
10 N V D operations (the logits three times, each gradient once; above 256 columns the logits more often),
moves no logit, and evaluates 3 N V exponentials.  The chunked form makes 6 N V D and moves each logit some
7 times: 14 bytes in bfloat16.  At 790 TFLOP/s and 4.3 TB/s a logit's floor is 13 D fs here and 8 D + 3300 fs
there: at a width of 128, 1.6 ps and 4.2 ps; at 512, 6.5 ps and 7.2 ps.  How near either comes to its floor
has to be measured on a card: kernels=auto takes the chunked form where that is faster there.

P members, N rows, D width, V words.
"""

# pyright: reportArgumentType=false, reportCallIssue=false
# what is decorated with triton.jit is no Python, and its arguments are not what Python takes them for

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
import triton
from jaxtyping import Float, Int
from torch import Tensor

from zoo.kernels.folding import Folding, Gradients
from zoo.kernels.launching import launch_options, strided, unfit_here
from zoo.kernels.linear_cross_entropy.chunked import rows_to_targets
from zoo.kernels.linear_cross_entropy.reference import IGNORED
from zoo.kernels.linear_cross_entropy.triton_kernels import gradients, losses
from zoo.kernels.precision import autocast
from zoo.kernels.tiles import power_of_two, rows_last

WITHOUT_PRODUCTS: frozenset[str] = frozenset()  # kernels that have no use for tensor cores
WIDEST = 512
PROGRAMS = 264  # two for each multiprocessor of a large GPU
FEWEST = 8  # steps that a program should make at least


class Blocks(NamedTuple):
    """How one program is cut: `own` rows stay, `other` rows pass by, `block` columns of both at once.

    width: columns of the gradient that a program sums up.
    """

    own: int
    other: int
    block: int
    width: int
    num_warps: int
    num_stages: int


def blocks(kernel: str, dtype: torch.dtype, size: int) -> Blocks:
    """Static, so that a captured graph and a second run do the same.  size: D filled up to a power of two.

    `python -m benchmarks.kernels_offline` says what each costs in registers; none may spill.
    """
    if dtype == torch.float32:
        return Blocks(64, 32, min(size, 32), min(size, 128), 8 if size >= 64 else 4, 2)
    if kernel == "losses":
        return Blocks(128, 64, min(size, 64), 0, 8, 3)
    if size <= 32:
        return Blocks(128, 64, size, size, 8, 3)
    return Blocks(64, 64, min(size, 64), min(size, 256), 8 if size > 64 else 4, 2)


def linear_cross_entropy_triton(
    x: Float[Tensor, "N D"], weight: Float[Tensor, "V D"], target: Int[Tensor, " N"]
) -> Float[Tensor, ""]:
    """What `linear_cross_entropy_reference` says, in float32; under autocast with the factors of F.linear."""
    short = power_of_two(x.shape[-1]) - x.shape[-1]
    if short:  # columns of zeros change nothing; masks in their place would spill registers
        x, weight = F.pad(x, (0, short)), F.pad(weight, (0, short))
    mean = _Loss.apply(x[None], weight[None], target[None], autocast(x[:0]).dtype)[0][0]
    return mean * rows_to_targets(target, mean.dtype)


def unfit(x: Tensor, weight: Tensor, target: Tensor) -> str | None:
    """Why these inputs cannot go through the kernel, in words; None: they can."""
    dtypes = {autocast(x[:0]).dtype, autocast(weight[:0]).dtype}
    if len(dtypes) > 1 or not dtypes <= {torch.float32, torch.bfloat16}:
        return f"x and weight must both be float32 or bfloat16, and are {x.dtype} and {weight.dtype}"
    if x.shape[-1] > WIDEST:
        return f"d_model (={x.shape[-1]}) must be at most {WIDEST}"
    del target
    return unfit_here(x)


def cases(few: bool) -> Iterator[tuple[str, torch.dtype, Callable[[], None]]]:
    """Calls that reach every kernel in every configuration, on "meta"; few: a quick choice of them."""
    widths = (64, 256) if few else (16, 32, 64, 128, 256, 512)
    for width, dtype in product(widths, (torch.float32, torch.bfloat16)):
        x, weight = (torch.empty(n, width, dtype=dtype, device="meta").requires_grad_() for n in (300, 8191))
        yield f"D {width}", dtype, partial(_both_ways, x, weight, x.new_empty(300, dtype=torch.long))


def _both_ways(x: Tensor, weight: Tensor, target: Tensor) -> None:
    linear_cross_entropy_triton(x, weight, target).backward()


class _Loss(Folding):
    """x [P N D], weight [P V D], target [P N] -> mean losses [P]; highest and total of each row [P 2 N]."""

    @staticmethod
    def forward(  # pyright: ignore
        x: Tensor, weight: Tensor, target: Tensor, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        x, weight = rows_last(x.to(dtype)), rows_last(weight.to(dtype))
        (members, rows, _), words = x.shape, weight.shape[1]
        cut = blocks("losses", dtype, power_of_two(x.shape[2]))
        parts, part = _dealt(members * triton.cdiv(rows, cut.own), words, cut.other)
        seen = x.new_empty(members, 2, parts, rows, dtype=torch.float32)
        asked = x.new_empty(members, rows, dtype=torch.float32)
        losses[triton.cdiv(rows, cut.own), parts, members](
            *(*strided(x, weight, dims=2), target.contiguous(), seen, asked),
            *(rows, words, part),
            **_sizes(x, cut),
        )
        highest = seen[:, 0].amax(1)
        total = ((seen[:, 0] - highest[:, None]).exp() * seen[:, 1]).sum(1)
        mine, ignored = (highest - asked) + total.log(), target == IGNORED
        # exp(l - inf) is 0: what is ignored has no gradient, as it has no right word
        norms = torch.stack([highest.masked_fill(ignored, torch.inf), total], 1)
        return mine.masked_fill(ignored, 0).mean(1), norms

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[:3], output[1])
        ctx.dtype = inputs[3]

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: None) -> tuple[Tensor | None, ...]:  # pyright: ignore
        if grad is None:
            return None, None, None, None
        return *_Gradients.apply(*ctx.saved_tensors, grad, ctx.dtype), None, None


class _Gradients(Gradients):
    @staticmethod
    def forward(  # pyright: ignore
        x: Tensor, weight: Tensor, target: Tensor, norms: Tensor, grad: Tensor, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        scale = (grad.float() / x.shape[1]).contiguous()
        rest = (target.contiguous(), norms.contiguous(), scale)
        inputs = rows_last(x.to(dtype)), rows_last(weight.to(dtype))
        dx = _gradient(x.dtype, *inputs, *rest, own_rows=True)
        return dx, _gradient(weight.dtype, *reversed(inputs), *rest, own_rows=False)


def _gradient(
    dtype: torch.dtype, a: Float[Tensor, "P M D"], b: Float[Tensor, "P K D"], *rest: Tensor, own_rows: bool
) -> Float[Tensor, "P M D"]:
    """Of `a`, in `dtype`.  own_rows: a is x and b the weight; else the other way round."""
    members, count, size = a.shape
    cut = blocks("gradient", a.dtype, power_of_two(size))
    columns = triton.cdiv(size, cut.width)
    programs = triton.cdiv(count, cut.own) * columns
    parts, part = _dealt(members * programs, b.shape[1], cut.other)
    sums = a.new_empty(parts, members, count, size, dtype=dtype if parts == 1 else torch.float32)
    gradients[programs, parts, members](
        *(*strided(a, b, dims=2), *rest, sums, *(count, b.shape[1], part, columns)),
        ROWS=own_rows,
        WIDTH=cut.width,
        **_sizes(a, cut),
    )
    return sums[0] if parts == 1 else sums.sum(0).to(dtype)


def _dealt(programs: int, passing: int, step: int) -> tuple[int, int]:
    """To how many programs the `passing` rows are dealt, for each of `programs`; how many rows each gets."""
    steps = triton.cdiv(passing, step)
    parts = max(1, min(PROGRAMS // programs, steps // FEWEST))
    part = triton.cdiv(steps, parts) * step
    return triton.cdiv(passing, part), part


def _sizes(x: Tensor, cut: Blocks) -> dict[str, Any]:
    return {
        **{"D": x.shape[-1], "OWN": cut.own, "OTHER": cut.other, "BLOCK": cut.block},
        **launch_options(cut.num_warps, cut.num_stages),
    }
