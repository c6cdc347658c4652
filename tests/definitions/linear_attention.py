"""Linear attention: every weight phi(q_t) . phi(k_s) by itself, Katharopoulos et al. 2020 (arXiv 2006.16236).

The weight of each map is written as a function of a query and a key where its paper has one (Taylor: a
polynomial; cosFormer: a cosine; FAVOR+: a mean over random rows), not as a product of features.
"""

import math

import torch
from torch import Tensor

from zoo.mixers.linear_attention import LinearAttention

PACKAGE = "fla-core: fla.ops.linear_attn.naive.naive_recurrent_linear_attn (on the features)"
PACKAGE_TOLERANCE = 2e-4  # it works in float32, and an output norm magnifies small outputs


def definition(mixer: LinearAttention, x: Tensor) -> Tensor:
    q, k, v = heads(mixer, x)
    ys = []
    for t in range(x.shape[1]):
        weights = WEIGHTS[type(mixer.map).__name__](mixer.map, q[:, :, t, None], k[:, :, : t + 1], t)
        y = (weights[..., None] * v[:, :, : t + 1]).sum(2)
        ys.append(y if mixer.eps is None else y / (weights.sum(-1, keepdim=True) + mixer.eps))
    return output(mixer, torch.stack(ys, dim=2))


def package(mixer: LinearAttention, x: Tensor) -> Tensor:
    """Called a second time on values of one, it is the denominator with an eps of our choice."""
    from fla.ops.linear_attn.naive import naive_recurrent_linear_attn

    q, k, v = heads(mixer, x)
    phi = FEATURES[type(mixer.map).__name__]
    q, k, v = (part.transpose(1, 2) for part in (phi(mixer.map, q), phi(mixer.map, k), v))
    y = naive_recurrent_linear_attn(q, k, v, scale=1.0)[0]
    if mixer.eps is not None:
        y = y / (naive_recurrent_linear_attn(q, k, torch.ones_like(v), scale=1.0)[0] + mixer.eps)
    return output(mixer, y.transpose(1, 2))


def heads(mixer: LinearAttention, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """[B H T C], [B H T C] and [B H T V]: the rows of one head's query, key and value stand together."""
    both = torch.einsum("btd,ed->bte", x, mixer.proj.weight)
    both = both.reshape(*x.shape[:2], mixer.num_heads, -1).permute(0, 2, 1, 3)
    size = mixer.feature_dim
    return both[..., :size], both[..., size : 2 * size], both[..., 2 * size :]


def output(mixer: LinearAttention, y: Tensor) -> Tensor:
    if len(list(mixer.norm.parameters())):
        scale = (y.square().mean(-1, keepdim=True) + mixer.norm.eps).sqrt()
        y = y / scale * mixer.norm.weight
    y = y.permute(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1)
    return torch.einsum("btd,ed->bte", y, mixer.out_proj.weight)


def taylor(map, q: Tensor, k: Tensor, t: int) -> Tensor:
    u = (q * k).sum(-1) / math.sqrt(k.shape[-1])
    return 1 + u + u**2 / 2


def cosine(map, q: Tensor, k: Tensor, t: int) -> Tensor:
    age = t - torch.arange(t + 1, dtype=k.dtype)
    return (q.relu() * k.relu()).sum(-1) * torch.cos(math.pi * age / (2 * map.max_len))


def favor(map, q: Tensor, k: Tensor, t: int) -> Tensor:
    """The mean over rows w of exp(w q' - q'^2 / 2) exp(w k' - k'^2 / 2), q' = q / C^(1/4)."""
    q, k = (part / k.shape[-1] ** 0.25 for part in (q, k))
    lengths = q.square().sum(-1) + k.square().sum(-1)
    return sum(torch.exp(((q + k) * w).sum(-1) - lengths / 2) for w in map.projection.T) / map.num_features


def dot(phi):
    return lambda map, q, k, t: (phi(map, q) * phi(map, k)).sum(-1)


def elu_plus_one(map, x: Tensor) -> Tensor:
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


def relu(map, x: Tensor) -> Tensor:
    return torch.where(x > 1e-6, x, 1e-6)


def taylor_features(map, x: Tensor) -> Tensor:
    """All products, each pair of channels twice: as many features as the authors' code has."""
    pairs = (x[..., :, None] * x[..., None, :]).flatten(-2)
    size = x.shape[-1]
    return torch.cat([torch.ones_like(x[..., :1]), x / size**0.25, pairs / (2 * size) ** 0.5], dim=-1)


def cosine_features(map, x: Tensor) -> Tensor:
    angle = math.pi * torch.arange(1, x.shape[-2] + 1, dtype=x.dtype)[:, None] / (2 * map.max_len)
    return torch.cat([x.relu() * angle.cos(), x.relu() * angle.sin()], dim=-1)


def favor_features(map, x: Tensor) -> Tensor:
    x = x / x.shape[-1] ** 0.25
    rows = [torch.exp((x * w).sum(-1) - x.square().sum(-1) / 2) for w in map.projection.T]
    return torch.stack(rows, dim=-1) / map.num_features**0.5


FEATURES = {
    "Taylor2": taylor_features,
    "Identity": lambda map, x: x,
    "Relu": relu,
    "PosElu": elu_plus_one,
    "Square": lambda map, x: x * x,
    "CosFormer": cosine_features,
    "Performer": favor_features,
}
# name of the map -> its weights of the keys k [B H t+1 C] for the query q [B H 1 C] at 0-based time t
WEIGHTS = {name: dot(phi) for name, phi in FEATURES.items()} | {
    "Taylor2": taylor,
    "CosFormer": cosine,
    "Performer": favor,
}
