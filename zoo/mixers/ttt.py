"""TTT's memory is a small model that is trained on the sequence while the sequence is read.

Sun et al. 2024, "Learning to (Learn at Test Time): RNNs with Expressive Hidden States" (arXiv 2407.04620):
the layer of the paper's Transformer backbone.

The state depends on the mini-batches.  All gradients of a mini-batch are taken at the weights of its start,
so that inside it both those weights and the sum of gradients must stay.  At its end the sum is spent, and
only the new weights stay.  In the first mini-batch the weights of the start are the learned ones, which are
parameters and no memory.

B batch, T time, D model width, H heads, C channels per head (H * C == D), P scalars of an inner model.
"""

from itertools import pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least, multiple
from zoo.kernels.ttt import ttt
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.inner_model import packed, unpacked
from zoo.mixers.positions import rotary_channels, rotate
from zoo.mixers.state import StateSize

W_STD = 0.02


class State(NamedTuple):
    model: Float[Tensor, "B H P"] | None  # weights at the start of the mini-batch; None: the learned ones
    sums: Float[Tensor, "B H P"] | None  # of rate * gradient in the open mini-batch; None where none is open
    offset: int


class TTT(Mixer[State]):
    """Train a small model per head to map keys to values while the tokens pass, and read it by q:
    y_t = q_t + LN(f(q_t; W_t)), W_t having taken a gradient step on 1/2 |LN(f(k_s)) - (v_s - k_s)|^2 for
    each s <= t, one LN per head; then a LayerNorm over all heads, and the output projection.

    expand: f is linear for 0 (TTT-Linear), else two layers with `expand` * C units (TTT-MLP: 4).
    mini_batch: tokens whose gradients are taken at the same weights.  Its token i scales the gradients' sum
    by max(0, 1/(i+1) + a learned number), and its own rate is base_lr * sigmoid(x w + b) / C.
    q and k are turned (RoPE) by their position in the mini-batch.  The authors pair neighbouring channels and
    we pair halves, which is another order of the same channels.  Their base_lr is 1 for linear, 0.1 for MLP.
    """

    def __init__(self, *, d_model: int, num_heads: int, mini_batch: int, expand: int, base_lr: float) -> None:
        super().__init__()
        multiple("d_model", d_model, "num_heads", num_heads)
        at_least("mini_batch", mini_batch, 1)
        at_least("expand", expand, 0)
        at_least("base_lr", base_lr, 0)
        self.num_heads, self.head_dim, self.mini_batch = num_heads, d_model // num_heads, mini_batch
        rotary_channels(self.head_dim)
        self.expand, self.base_lr = expand, base_lr
        hidden = [expand * self.head_dim] if expand else []
        sizes = [self.head_dim, *hidden, self.head_dim]
        self.inner = nn.ParameterList()
        for n_in, n_out in pairwise(sizes):
            self.inner.append(nn.Parameter(torch.randn(num_heads, n_in, n_out) * W_STD))
            self.inner.append(nn.Parameter(torch.zeros(num_heads, 1, n_out)))
        self.inner_size = sum(w[0].numel() for w in self.inner)
        self.norm_weight = nn.Parameter(torch.ones(num_heads, 1, self.head_dim))
        self.norm_bias = nn.Parameter(torch.zeros(num_heads, 1, self.head_dim))
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.rate = nn.Linear(d_model, num_heads)
        nn.init.normal_(self.rate.weight, std=W_STD)
        nn.init.zeros_(self.rate.bias)
        self.token_scale = nn.Parameter(torch.zeros(mini_batch))
        self.post_norm = nn.LayerNorm(d_model, eps=1e-6)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Train the inner model on the new tokens and read it; keep its weights and the open gradients."""
        model, sums, offset = State(None, None, 0) if state is None else state
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = self._turned(torch.stack([q, k]), offset % self.mini_batch)
        lr = self.base_lr / self.head_dim * self.rate(x).sigmoid().transpose(1, 2)
        steps = torch.arange(1, self.mini_batch + 1, device=x.device, dtype=self.token_scale.dtype)
        scale = (1 / steps + self.token_scale).clamp(min=0)
        weights = tuple(self.inner) if model is None else unpacked(model, self.inner)
        gradients = None if sums is None else unpacked(sums, self.inner)
        norm = (self.norm_weight, self.norm_bias)
        y, weights, gradients = ttt(q, k, v, lr, scale, norm, weights, gradients, offset)
        offset += x.shape[1]
        model_after = packed(weights) if offset >= self.mini_batch else None
        y = self.post_norm(y.transpose(1, 2).flatten(2).to(x.dtype))
        return self.out_proj(y), State(model_after, None if gradients is None else packed(gradients), offset)

    def _turned(self, x: Float[Tensor, "2 B H T C"], first: int) -> Float[Tensor, "2 B H T C"]:
        """Turn by the position in the mini-batch, where the first token stands at `first`."""
        length, size = x.shape[-2], self.mini_batch
        whole = F.pad(x, (0, 0, first, -(first + length) % size)).unflatten(-2, (-1, size))
        turned = rotate(whole.flatten(0, 2)).view_as(whole)
        return turned.flatten(-3, -2)[..., first : first + length, :]

    def state_size(self, seq_len: int) -> StateSize:
        """Count the inner model once in the first mini-batch and at the end of each, twice inside the others.

        The published count is always once.
        """
        model = self.num_heads * self.inner_size
        held = model * (min(1, seq_len // self.mini_batch) + min(1, seq_len % self.mini_batch))
        return StateSize.read_whole(held, paper=model)
