"""RWKV-6: decay and token shift that depend on the token, Peng et al. 2024 (arXiv 2404.05892), Section 4."""

import torch
from torch import Tensor

from tests.definitions.rwkv5 import output, packaged, recurrence
from zoo.mixers.rwkv6 import RWKV6

PACKAGE = "fla-core: fla.ops.rwkv6.recurrent_naive.naive_recurrent_rwkv6"
PACKAGE_TOLERANCE = 2e-3  # it works in float32; after one token the norm leaves gradients that all but vanish


def definition(m: RWKV6, x: Tensor) -> Tensor:
    return output(m.heads, *inputs(m, x), recurrence)


def package(m: RWKV6, x: Tensor) -> Tensor:
    return output(m.heads, *inputs(m, x), packaged)


def inputs(m: RWKV6, x: Tensor) -> tuple[Tensor, ...]:
    before = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1)
    z = torch.lerp(x, before, m.shift.first_share)
    low = torch.tanh(z @ m.shift.down).reshape(*x.shape[:2], 5, -1)
    shares = m.shift.share + torch.einsum("btjr,jrd->btjd", low, m.shift.up)
    x_w, *mixed = (torch.lerp(x, before, share) for share in shares.unbind(2))
    return *mixed, torch.exp(-torch.exp(m.decay.base + torch.tanh(x_w @ m.decay.down) @ m.decay.up))
