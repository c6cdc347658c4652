"""An eidetic memory keeps a few tokens exactly: those that the tokens before them predicted worst.

The B'MOJO paper (arXiv 2407.06324) keeps the tokens that its fading memory cannot predict, and leaves the
rule open; the rule here is zoo's.

B batch, T time, D model width, G key/value heads, C channels per head, P taps of the predictor, E tokens
kept, S in context, M = E + S candidates in the order of time.  The 2 in [B 2 G S C] are keys and values.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from zoo.common.checks import at_least
from zoo.mixers.base import Seq
from zoo.mixers.short_conv import ShortConv


class Eidetic(NamedTuple):
    tokens: Float[Tensor, "B 2 G E C"]
    innovation: Float[Tensor, "B E"]
    candidates: Float[Tensor, "B S"]  # innovations of the tokens in context: they are kept or dropped next
    inputs: Float[Tensor, "B P D"]  # what the next token is predicted from


class EideticMemory(nn.Module):
    """Of all tokens that have left the window, keep the num_eidetic of the highest innovation.

    Innovation is the mean over channels of (x_t - sum_{r=1..P} w_r x_{t-r})^2, each channel predicted by
    itself, P = predictor_size.  The weights w start as a mean over the last P tokens.  They have a gradient
    because innovation, besides choosing, raises a kept token's logit by log(1 + innovation).
    """

    def __init__(self, d_model: int, window: int, num_eidetic: int, predictor_size: int) -> None:
        super().__init__()
        at_least("predictor_size", predictor_size, 1)
        self.window, self.num_eidetic, self.predictor_size = window, num_eidetic, predictor_size
        self.predict = ShortConv(d_model, predictor_size, bias=False)
        nn.init.constant_(self.predict.weight, 1 / predictor_size)

    def forward(
        self, x: Seq, near: Float[Tensor, "B 2 G S C"], mask: Bool[Tensor, "T S+R"], before: Eidetic
    ) -> tuple[Float[Tensor, "B 2 G M C"], Float[Tensor, "B 1 T M+R"], Eidetic]:
        """Return kept and near keys and values, the biases of their and R other logits, and the next memory.

        near: from window - 1 tokens before `x` to its end.  mask: True where a near or other key is in view.
        A token is kept only after it has left the window, so that none is attended to twice.
        """
        new, inputs = self.innovation(x, before.inputs)
        innovation = torch.cat([before.innovation, before.candidates, new], dim=1)
        kv, already = torch.cat([before.tokens, near], dim=3), before.tokens.shape[3]
        outside = F.pad(ages(x.shape[1] + 1, near) >= self.window - 1, (already, 0), value=True)
        chosen = best(innovation, outside, self.num_eidetic)  # for each token of x and for the next
        bias = innovation.log1p()[:, None].masked_fill(~chosen[:, :-1], float("-inf"))
        bias = F.pad(bias, (0, mask.shape[1] - near.shape[3]), value=float("-inf"))
        bias = bias.masked_fill(F.pad(mask, (already, 0)), 0.0)
        left = already + max(0, near.shape[3] - self.window + 1)
        where = places(chosen[:, -1], min(self.num_eidetic, left))
        tokens = torch.take_along_dim(kv, where[:, None, None, :, None], dim=3)
        after = Eidetic(tokens, torch.take_along_dim(innovation, where, dim=1), innovation[:, left:], inputs)
        return kv, bias[:, None], after

    def innovation(self, x: Seq, past: Float[Tensor, "B P D"]) -> tuple[Float[Tensor, "B T"], Tensor]:
        """Return the innovation of each token, and the last P tokens for the next call."""
        inputs, size = torch.cat([past, x.to(past.dtype)], dim=1), self.predictor_size
        predicted, _ = self.predict(inputs[:, size - 1 : -1], inputs[:, : size - 1])
        return (inputs[:, size:] - predicted).square().mean(-1), inputs[:, x.shape[1] :]

    def start(self, x: Seq, tokens: Float[Tensor, "B 2 G 0 C"]) -> Eidetic:
        """Return an empty memory, with zeros as the tokens before the first, in float32 at least."""
        dtype = torch.promote_types(x.dtype, torch.float32)
        past = x.new_zeros(x.shape[0], self.predictor_size, x.shape[2], dtype=dtype)
        return Eidetic(tokens, past[:, :0, 0], past[:, :0, 0], past)

    def size(self, old: int, kv_floats: int) -> int:
        """Count the scalars after `old` tokens have left the window, without the candidates."""
        return min(self.num_eidetic, old) * (kv_floats + 1) + self.predict.weight.numel()


def ages(length: int, kv: Float[Tensor, "B 2 G S C"]) -> Int[Tensor, "T S"]:
    """Return the age of each of S tokens at each of `length` queries, the last of which is the last token."""
    t, s = torch.arange(length, device=kv.device), torch.arange(kv.shape[3], device=kv.device)
    return t[:, None] + (kv.shape[3] - length) - s


def best(
    innovation: Float[Tensor, "B M"], candidate: Bool[Tensor, "T M"], most: int
) -> Bool[Tensor, "B T M"]:
    """Mark the `most` highest among the candidates of each row; of equal ones the earliest.

    A candidate is marked if fewer than `most` others beat it.  For all rows together that is one product of
    matrices, without sorting.
    """
    size = innovation.shape[1]
    earlier = torch.ones(size, size, dtype=torch.bool, device=innovation.device).triu(1)
    mine, others = innovation[:, None, :], innovation[:, :, None]
    beats = (others > mine) | ((others == mine) & earlier)
    with torch.autocast(innovation.device.type, enabled=False):
        beaten_by = candidate.to(innovation.dtype) @ beats.to(innovation.dtype)
    return candidate & (beaten_by < most)


def places(chosen: Bool[Tensor, "B M"], count: int) -> Int[Tensor, "B count"]:
    """Return the places of the `count` chosen ones of each row, in the order of time."""
    size = chosen.shape[1]
    order = torch.arange(size, 0, -1, device=chosen.device)
    return size - (chosen * order).topk(count, dim=1).values
