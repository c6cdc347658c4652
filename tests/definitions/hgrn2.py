"""HGRN2: the recurrence with outer-product expansion, Qin et al. 2024 (arXiv 2404.07904), Eqs. 2 and 6."""

import torch
from torch import Tensor

from tests.definitions import gla
from tests.definitions.deltanet import rms, silu
from zoo.mixers.hgrn2 import HGRN2

PACKAGE = "fla-core: fla.ops.gla.naive.naive_recurrent_gla (given these gates)"
PACKAGE_TOLERANCE = 5e-3  # it works in float32, and of one token the norm leaves a gradient near 0


def definition(mixer: HGRN2, x: Tensor) -> Tensor:
    return around(mixer, x, gla.recurrence)


def package(mixer: HGRN2, x: Tensor) -> Tensor:
    from fla.ops.gla.naive import naive_recurrent_gla

    return around(mixer, x, lambda q, k, v, a: naive_recurrent_gla(q, k, v, a.log())[0])


def around(m: HGRN2, x: Tensor, attend) -> Tensor:
    """a forgets, and 1 - a writes; the recurrence divides queries by the root of their width."""
    q, f = x @ m.q.weight.T, x @ m.f.weight.T
    floor = 0 if m.floor_logit is None else 1 / (1 + torch.exp(-m.floor_logit))
    a = floor + (1 - floor) / (1 + torch.exp(-f))
    parts = (silu(q), 1 - a, x @ m.v.weight.T, a)
    q, k, v, a = (part.reshape(*x.shape[:2], m.num_heads, -1) for part in parts)
    return rms(attend(q * q.shape[-1] ** 0.5, k, v, a).flatten(2), m.norm) @ m.out_proj.weight.T
