"""Titans' long-term memory is an inner model trained on the sequence, with momentum and with forgetting.

Behrouz et al. 2025, "Titans: Learning to Memorize at Test Time" (arXiv 2501.00663), Section 3.1, the memory
alone (LMM), and the losses of Yaad and Moneta, Behrouz et al. 2025, "It's All Connected" (MIRAS, arXiv
2504.13173): both read in transcriptions.

B batch, T time, D model width, H heads, C channels per head (H C == D), P scalars of an inner model.
"""

from itertools import pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least, multiple, positive
from zoo.kernels.common.decay import decays
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.delta_heads import HeadsOutput, unit
from zoo.mixers.inner_model import packed, unpacked
from zoo.mixers.state import StateSize

REMEMBERING = -4.0  # logit of the initial rate of forgetting: 16 tokens keep three quarters
MOST_POWER = 8.0
Weights = tuple[Tensor, ...]  # a matrix [B H in out] of each inner layer


class State(NamedTuple):
    model: Float[Tensor, "B H P"]  # M
    momentum: Float[Tensor, "B H P"]  # S
    start: Float[Tensor, "B H P"] | None  # M where the open chunk began; None: M itself, or the learned one
    offset: int


class Titans(Mixer[State]):
    """Train a small model per head to map keys to values, with momentum and decay, and read it by q:
    M_t = (1 - a_t) M_{t-1} + S_t, S_t = eta_t S_{t-1} - theta_t d|M(k_t) - v_t|^2/dM,  y_t = M_t(q_t).

    The gradients of a chunk are all taken at M where it began; two scans then give every S_t and M_t.
    a, eta and theta are sigmoids of x W + b, one per head; q and k have norm 1; each head's output passes an
    RMSNorm and a SiLU gate.  M_0 is learned.

    expand: M is a matrix for 0, else two layers with `expand` * C units and a SiLU between them.
    chunk_size: tokens of a chunk.
    delta: for an error e = M(k) - v longer than delta the loss is 2 delta |e| - delta^2, Huber's (Yaad).
    power: p, of the loss sum |e_i|^p (Moneta: 3).
    Ours: theta is divided by chunk_size, so that a chunk of one key does not overshoot.  With two layers, or
    a power above 2, a token's gradient is cut to length 1 at most, since no step is safe there.  a starts at
    sigmoid(-4).
    Left out: window attention beside the memory (MAC, MAG, MAL), and persistent tokens.
    Yaad and Moneta have momentum and one rate per head here; published, no momentum and a rate per channel.
    Published Yaad computes delta from x, and beyond it steps along delta sign(e), which jumps at delta.
    Moneta's L_q retention (M over a power of its norm) is left out, and so is all of Memora: a softmax over
    all weights at every token is no scan.
    """

    def __init__(
        self,
        *,
        d_model: int,
        num_heads: int,
        expand: int,
        chunk_size: int,
        delta: float | None = None,
        power: float = 2.0,
    ) -> None:
        super().__init__()
        multiple("d_model", d_model, "num_heads", num_heads)
        at_least("expand", expand, 0)
        at_least("chunk_size", chunk_size, 1)
        at_least("power", power, 2)
        if power > MOST_POWER:
            raise ValueError(f"power (={power}) must be at most {MOST_POWER}: beyond it an error overflows.")
        if delta is not None:
            positive("delta", delta)
            if power != 2:
                raise ValueError(f"power (={power}) must be 2 with a delta: Huber's loss begins as a square.")
        self.delta, self.power = delta, power
        self.num_heads, self.head_dim, self.chunk_size = num_heads, d_model // num_heads, chunk_size
        sizes = [self.head_dim, *([expand * self.head_dim] if expand else []), self.head_dim]
        self.inner = nn.ParameterList(
            nn.Parameter(torch.randn(num_heads, n_in, n_out) * n_in**-0.5) for n_in, n_out in pairwise(sizes)
        )
        nn.init.zeros_(self.inner[-1])
        self.inner_size = sum(w[0].numel() for w in self.inner)
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.rates = nn.Linear(d_model, 3 * num_heads)
        nn.init.zeros_(self.rates.bias)
        nn.init.constant_(self.rates.bias[:num_heads], REMEMBERING)
        self.output = HeadsOutput(d_model, num_heads, self.head_dim, gate=True)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Train the inner model chunk by chunk and read it; keep it, its momentum and where a chunk began."""
        wide = torch.promote_types(x.dtype, torch.float32)
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        forget, keep, rate = self.rates(x).to(wide).transpose(1, 2).chunk(3, dim=1)
        with torch.autocast(x.device.type, enabled=False):
            rates = F.logsigmoid(-forget), F.logsigmoid(keep), rate.sigmoid() / -self.chunk_size
            y, state = self._train((unit(q), unit(k), v.to(wide), *rates), state)
        return self.output(y, x), state

    def _train(self, tokens: tuple[Tensor, ...], state: State | None) -> tuple[Tensor, State]:
        model, momentum, start = (unpacked(each, self.inner) for each in self._held(len(tokens[0]), state))
        offset = 0 if state is None else state.offset
        ys, done, length = [], 0, tokens[0].shape[2]
        while done < length:
            size = min(self.chunk_size - offset % self.chunk_size, length - done)
            part = tuple(each[:, :, done : done + size] for each in tokens)
            y, model, momentum = self._chunk(part, model, momentum, start)
            ys.append(y)
            done, offset = done + size, offset + size
            start = start if offset % self.chunk_size else model
        kept = packed(start) if offset % self.chunk_size and offset > self.chunk_size else None
        return torch.cat(ys, dim=2), State(packed(model), packed(momentum), kept, offset)

    def _held(self, batch: int, state: State | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return the model, its momentum, and the model where the open chunk began."""
        if state is not None and state.start is not None:
            return state.model, state.momentum, state.start
        if state is not None and not state.offset % self.chunk_size:
            return state.model, state.momentum, state.model
        learned = packed(self.inner).expand(batch, -1, -1)
        model, momentum = (learned, torch.zeros_like(learned)) if state is None else state[:2]
        return model, momentum, learned

    def _chunk(
        self, tokens: tuple[Tensor, ...], model: Weights, momentum: Weights, start: Weights
    ) -> tuple[Float[Tensor, "B H T C"], Weights, Weights]:
        """Return outputs, model and momentum without a matrix per token: a token's share of each is a number.

        M_t has token j's step times the sum over i of the product of (1 - a) over (i, t] and eta over (j, i].
        """
        q, k, v, log_left, log_keep, rate = tokens
        (left, model_left), (kept, momentum_left) = decays(log_left), decays(log_keep)
        share, of_momentum = left @ kept, left @ momentum_left
        last = (each[..., -1:, :] for each in (model_left, of_momentum, momentum_left, share, kept))
        by_model, by_momentum, by_itself, shares, alone = last
        y, models, momenta = q, [], []
        gradients = self._gradients(k, v, start)
        for i, (M, S, (x, slope)) in enumerate(zip(model, momentum, gradients, strict=True)):
            y = F.silu(y) if i else y
            step = rate[..., None] * slope
            y, read = model_left * (y @ M) + of_momentum * (y @ S), (y @ x.mT * share) @ step
            y = y + read
            models.append(by_model * M + by_momentum * S + (x * shares.mT).mT @ step)
            momenta.append(by_itself * S + (x * alone.mT).mT @ step)
        return y, tuple(models), tuple(momenta)

    def _gradients(self, k: Tensor, v: Tensor, weights: Weights) -> list[tuple[Tensor, Tensor]]:
        """Return two vectors for each layer: their outer product is the gradient of a token's loss."""
        first, *second = weights
        hidden = k @ first
        if not second:
            gradients = [(k, self._slope(hidden - v))]
        else:
            share = hidden.sigmoid()
            slope = self._slope(hidden * share @ second[0] - v)
            back = (slope @ second[0].mT) * share * (1 + hidden * (1 - share))
            gradients = [(k, back), (hidden * share, slope)]
        if second or self.power > 2:
            squares = [_square(x) * _square(slope) for x, slope in gradients]
            shrink = torch.stack(squares).sum(0).clamp(min=1).rsqrt()
            gradients = [(x, shrink * slope) for x, slope in gradients]
        return gradients

    def _slope(self, error: Float[Tensor, "B H T C"]) -> Float[Tensor, "B H T C"]:
        """Return the derivative of the loss by the memory's output."""
        if self.power > 2:
            return self.power * error.sign() * error.abs() ** (self.power - 1)
        if self.delta is None:
            return 2 * error
        length = torch.linalg.vector_norm(error, dim=-1, keepdim=True)
        return 2 * error * (self.delta / length.clamp(min=self.delta))

    def state_size(self, seq_len: int) -> StateSize:
        """Count the inner model, its momentum, and inside a chunk after the first, the model at its start."""
        inside = seq_len > self.chunk_size and seq_len % self.chunk_size > 0
        return StateSize.read_whole(self.num_heads * self.inner_size * (3 if inside else 2))


def _square(x: Float[Tensor, "B H T C"]) -> Float[Tensor, "B H T 1"]:
    return x.square().sum(-1, keepdim=True)
