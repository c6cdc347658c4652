"""Hyena: gates around sums over the past, Poli et al. 2023 (arXiv 2302.10866), Definition 3.1 and Eq. 7."""

import math

import torch
from torch import Tensor

from tests.definitions.deltanet import causal
from zoo.mixers.hyena import Hyena


def definition(mixer: Hyena, x: Tensor) -> Tensor:
    size = mixer.d_model
    u = torch.einsum("btd,ed->bte", x, mixer.in_proj.weight) + mixer.in_proj.bias
    u = causal(mixer.conv.weight, u, mixer.conv.bias)
    gates, v = u[..., : mixer.order * size].split(size, dim=-1), u[..., mixer.order * size :]
    k = filters(mixer, x.shape[1])
    z = gates[0] * v
    for m, gate in enumerate(gates[1:]):
        z = gate * (causal(k[:, m * size : (m + 1) * size], z) + mixer.skip[m] * z)
    return torch.einsum("btd,ed->bte", z, mixer.out_proj.weight) + mixer.out_proj.bias


def filters(mixer: Hyena, length: int) -> Tensor:
    """[T (order - 1) D]: a network of sines of the time, under a window that falls exponentially."""
    net, rows = mixer.filter, []
    for t in range(length):
        hidden = net.features[t]
        if not hidden.requires_grad:
            hidden = single(time_features(t, mixer.max_len, len(hidden)))
        for layer in net.layers:
            hidden = torch.sin(net.freq * (layer.weight @ hidden + layer.bias))
        rows.append(net.out.weight @ hidden * single(window(mixer, t)))
    return torch.stack(rows)


def time_features(t: int, max_len: int, count: int) -> list[float]:
    """The time as a fraction; real and imaginary parts of exp(-2 pi i f t / max_len) for its bands f."""
    bands = (count - 1) // 2
    rates = [1e-4 + i * (bands - 1 - 1e-4) / (bands - 1) for i in range(bands)]
    angles = [2 * math.pi * rate * t / max_len for rate in rates]
    return [t / (max_len - 1), *(math.cos(a) for a in angles), *(-math.sin(a) for a in angles)]


def window(mixer: Hyena, t: int) -> list[float]:
    """exp(-rate t) + shift, rates evenly spaced from the channel that is slowest to fall to 0.01 on."""
    channels, (fastest, slowest) = mixer.filter.out.weight.shape[0], sorted(mixer.filter.decay)
    slow, fast = -math.log(0.01) / slowest, -math.log(0.01) / fastest
    rates = [slow + c * (fast - slow) / (channels - 1) for c in range(channels)]
    return [math.exp(-rate * t / (mixer.max_len - 1)) + mixer.filter.shift for rate in rates]


def single(constants: list[float]) -> Tensor:
    """A mixer keeps its constants in float32."""
    return torch.tensor(constants, dtype=torch.float32).double()
