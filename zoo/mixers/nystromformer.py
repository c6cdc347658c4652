"""Nystromformer approximates softmax attention by a few landmarks, means of segments of the whole sequence.

Xiong et al. 2021 (arXiv 2102.03902), Eq. 13 and Section 3.

B batch, T time, D model width, H heads, M landmarks, C channels per head.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from zoo.common.checks import at_least
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.projections import QueryKeyValue
from zoo.mixers.state import StateSize


class State(NamedTuple):
    x: Float[Tensor, "B T D"]  # every input so far


class Nystromformer(Mixer[State]):
    """Approximate softmax attention over the whole sequence by a few mean queries and keys:
    y = softmax(q K~^T) pinv(softmax(Q~ K~^T)) softmax(Q~ k^T) v, where Q~ and K~ are the means of the
    queries and keys of `num_landmarks` segments; up to num_landmarks tokens, softmax attention itself.

    It reads the whole sequence, later tokens too, and has no recurrent form: `causal` and `exact_decode` are
    False, pictures draw it apart, and it is no decoder.  Its state is all inputs; `extend` computes the
    outputs of the new tokens from all inputs so far, as `forward` of that whole sequence would.

    num_iterations: of the iterative pseudo-inverse.  kernel_size: taps (odd) of a convolution of the values
    along time, centred on the token, added to each head (the published encoder has 33); 0: none.
    Where we differ from the published code: segments may differ by a token in length, and the
    pseudo-inverse starts from the matrix's own norm, not the largest in the batch, which would tie the rows
    of a batch together.  (zoology never splits the heads and masks landmarks as if they were tokens.)
    """

    causal = False
    exact_decode = False
    small_out = True

    def __init__(
        self,
        *,
        d_model: int,
        num_heads: int,
        num_landmarks: int,
        num_iterations: int,
        kernel_size: int,
        bias: bool,
    ) -> None:
        super().__init__()
        at_least("num_landmarks", num_landmarks, 1)
        at_least("num_iterations", num_iterations, 1)
        at_least("kernel_size", kernel_size, 0)
        if kernel_size and kernel_size % 2 == 0:
            raise ValueError(f"kernel_size (={kernel_size}) must be odd, with the token in the middle, or 0.")
        self.d_model, self.num_landmarks, self.num_iterations = d_model, num_landmarks, num_iterations
        self.qkv = QueryKeyValue(d_model, num_heads, bias=bias)
        taps = torch.empty(num_heads, 1, kernel_size)
        bound = kernel_size**-0.5 if kernel_size else 0.0
        self.taps = nn.Parameter(taps.uniform_(-bound, bound)) if kernel_size else None
        self.out_proj = nn.Linear(d_model, d_model, bias=bias)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Compute all inputs so far anew and return the new tokens' outputs; keep the inputs."""
        whole = x if state is None else torch.cat([state.x, x], dim=1)
        q, k, v = self.qkv(whole)
        q, k, v = (part.to(torch.promote_types(part.dtype, torch.float32)) for part in (q, k, v))
        with torch.autocast(x.device.type, enabled=False):
            y = self._attend(q, k, v)
            if self.taps is not None:
                y = y + self._around(v)
        y = self.out_proj(y.transpose(1, 2).flatten(2).to(x.dtype))
        return y[:, whole.shape[1] - x.shape[1] :], State(whole)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scale, length = q.shape[-1] ** -0.5, q.shape[2]
        if length <= self.num_landmarks:
            return (q @ k.mT * scale).softmax(-1) @ v
        means = segment_means(length, self.num_landmarks).to(q)
        q_means, k_means = means @ q, means @ k
        kernel = (q_means @ k_means.mT * scale).softmax(-1)
        context = (q_means @ k.mT * scale).softmax(-1) @ v
        return (q @ k_means.mT * scale).softmax(-1) @ (pseudo_inverse(kernel, self.num_iterations) @ context)

    def _around(self, v: Tensor) -> Tensor:
        """Convolve the values along time, with one filter per head."""
        assert self.taps is not None
        channels = v.permute(0, 3, 1, 2).flatten(0, 1)
        mixed = F.conv1d(channels, self.taps.to(v), padding=self.taps.shape[-1] // 2, groups=v.shape[1])
        return mixed.unflatten(0, (v.shape[0], -1)).permute(0, 2, 3, 1)

    def state_size(self, seq_len: int) -> StateSize:
        """Count all inputs; the published count takes keys and values of the landmarks."""
        return StateSize.read_whole(self.d_model * seq_len, paper=2 * self.d_model * self.num_landmarks)

    def visible(self, wanted: Bool[Tensor, "*R T"]) -> Bool[Tensor, "*R T"]:
        """Return all tokens for any output: landmarks average over the whole sequence."""
        return wanted.any(-1, keepdim=True).expand_as(wanted)


def segment_means(length: int, count: int) -> Float[Tensor, "M T"]:
    """Return a matrix whose row m averages segment m; the first `length` mod `count` have a token more."""
    short, longer = divmod(length, count)
    sizes = torch.full((count,), short) + (torch.arange(count) < longer)
    segment = torch.arange(count).repeat_interleave(sizes, output_size=length)
    return (segment == torch.arange(count)[:, None]) / sizes[:, None].double()


def pseudo_inverse(a: Float[Tensor, "... M M"], iterations: int) -> Float[Tensor, "... M M"]:
    """Iterate z <- z (13 - az (15 - az (7 - az))) / 4 from a^T / (|a|_1 |a|_inf) (Razavi et al. 2014)."""
    one = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    norms = a.abs().sum(-1).amax(-1) * a.abs().sum(-2).amax(-1)
    z = a.mT / norms[..., None, None]
    for _ in range(iterations):
        az = a @ z
        z = z @ (13 * one - az @ (15 * one - az @ (7 * one - az))) / 4
    return z
