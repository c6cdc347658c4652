"""S^2-Attn: attention inside groups, half of the heads shifted, LongLoRA (arXiv 2309.12307), Section 3.2.

The groups do not wrap around; the shifted ones are [0, g/2), [g/2, 3g/2), ...
"""

import torch
from torch import Tensor

from tests.definitions import attention
from zoo.mixers.s2_attn import S2Attn


def definition(mixer: S2Attn, x: Tensor) -> Tensor:
    q, k, v = attention.positioned(mixer.qkv, x)
    size, heads = mixer.group_size, []
    for h in range(mixer.qkv.num_heads):
        shift = 0 if h < mixer.qkv.num_heads // 2 else size // 2

        def seen(t: int, shift: int = shift) -> range:
            start = (t + shift) // size * size - shift
            return range(max(start, 0), t + 1)

        every = attention.attend(mixer.qkv, q, k, v, seen)
        heads.append(every.split(mixer.qkv.head_dim, dim=-1)[h])
    return attention.project(mixer.out_proj, torch.cat(heads, dim=-1))
