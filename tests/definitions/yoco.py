"""YOCO's attention: softmax over keys and values of another layer, Sun et al. 2024 (arXiv 2405.05254), Eq. 3.

The softmax is `attend` of attention.py.  `below` is the input of the layer that writes the cache.
"""

from torch import Tensor

from tests.definitions.attention import attend, positioned, project, turned
from zoo.mixers.yoco import Yoco


def definition(mixer: Yoco, x: Tensor) -> Tensor:
    q, k, v = positioned(mixer.qkv, x)
    return project(mixer.out_proj, attend(mixer.qkv, q, k, v, lambda t: range(t + 1)))


def above(mixer: Yoco, x: Tensor, lowest: Yoco, below: Tensor) -> Tensor:
    _, k, v = positioned(lowest.qkv, below)
    q = list(project(mixer.qkv.proj, x).split(mixer.qkv.head_dim, dim=-1))
    if mixer.qkv.position == "rope":
        q = [turned(part, mixer.qkv.rope_base, mixer.qkv.rope_fraction) for part in q]
    return project(mixer.out_proj, attend(mixer.qkv, q, k, v, lambda t: range(t + 1)))
