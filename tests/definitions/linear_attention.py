"""Linear attention: every weight phi(q_t) . phi(k_s) by itself, Katharopoulos et al. 2020 (arXiv 2006.16236).

The weight of each map is written as a function of a query and a key where its paper has one (Taylor: a
polynomial; ReBased: a square; cosFormer: a cosine; FAVOR+: a mean over random rows), not as a product of
features.
"""

import math

import torch
from torch import Tensor

from zoo.mixers.linear_attention import LinearAttention

PACKAGE = "fla-core: fla.ops.{linear_attn,based,rebased}.naive"
CHUNK = 64  # of the package's linear attention: its only form that stays in float64


def definition(mixer: LinearAttention, x: Tensor) -> Tensor:
    q, k, v = heads(mixer, x)
    name, ys, eps = type(mixer.map).__name__, [], least(mixer, q, k)
    for t in range(x.shape[1]):
        weights = WEIGHTS[name](mixer.map, q[:, :, t, None], k[:, :, : t + 1], t)
        y = (weights[..., None] * fading(mixer, t) * v[:, :, : t + 1]).sum(2)
        ys.append(y if eps is None else y / (weights.sum(-1, keepdim=True) + eps[:, :, t]))
    return output(mixer, torch.stack(ys, dim=2), x)


def least(mixer: LinearAttention, q: Tensor, k: Tensor) -> Tensor | None:
    """[B H T 1]: eps, which with FAVOR+ is a share of the largest feature's part in a query's weights."""
    if mixer.eps is None or type(mixer.map).__name__ != "Performer" or mixer.decay is not None:
        return None if mixer.eps is None else torch.full_like(q[..., :1], mixer.eps)
    parts = favor_features(mixer.map, q) * favor_features(mixer.map, k).cumsum(2)
    return mixer.eps * parts.amax(-1, keepdim=True).detach()


def fading(mixer: LinearAttention, t: int) -> Tensor:
    """gamma_h^(t - s) of the weights of tokens s = 0 .. t."""
    if mixer.decay is None:
        return torch.ones(())
    ages = torch.arange(t, -1, -1, dtype=torch.float64)
    return torch.stack([(1 - 2.0 ** (-3 - h)) ** ages for h in range(mixer.num_heads)])[..., None]


def package(mixer: LinearAttention, x: Tensor) -> Tensor:
    """The two Taylor-like maps have references of their own; the others go by their features."""
    from fla.ops.based.naive import naive_parallel_based
    from fla.ops.rebased.naive import naive_parallel_rebased

    q, k, v = heads(mixer, x)
    assert mixer.eps in (None, 1e-6), "it is written into the references"
    whole = {"Taylor2": naive_parallel_based, "ReBased": naive_parallel_rebased}.get(type(mixer.map).__name__)
    if whole is not None and mixer.decay is None:
        return output(mixer, whole(q, k, v, use_norm=mixer.eps is not None), x)
    phi = FEATURES[type(mixer.map).__name__]
    phi_q, phi_k = phi(mixer.map, q), phi(mixer.map, k)
    y = sums(phi_q * faded(mixer, q, 1), phi_k * faded(mixer, k, -1), v)
    if (eps := least(mixer, q, k)) is not None:
        y = y / (sums(phi_q, phi_k, torch.ones_like(v)) + eps)  # the reference's own eps is 1e-10
    return output(mixer, y, x)


def faded(mixer: LinearAttention, x: Tensor, sign: int) -> Tensor:
    """gamma_h^(sign * t): of queries and 1 / of keys, they leave gamma_h^(t - s)."""
    return fading(mixer, x.shape[2] - 1).flip(1) ** sign if mixer.decay else torch.ones(())


def sums(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """phi(q_t) times the sum of phi(k_s) v_s^T for s <= t, [B H T V]."""
    from fla.ops.linear_attn.naive import naive_chunk_linear_attn

    missing = -q.shape[2] % CHUNK
    padded = (torch.nn.functional.pad(part, (0, 0, 0, missing)).transpose(1, 2) for part in (q, k, v))
    return naive_chunk_linear_attn(*padded, scale=1.0).transpose(1, 2)[:, :, : q.shape[2]]


def heads(mixer: LinearAttention, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """[B H T C], [B H T C] and [B H T V]: the rows of one head's query, key and value stand together."""
    both = torch.einsum("btd,ed->bte", x, mixer.proj.weight)
    both = both.reshape(*x.shape[:2], mixer.num_heads, -1).permute(0, 2, 1, 3)
    size, learned = mixer.feature_dim, LEARNED.get(type(mixer.map).__name__, lambda map, x: x)
    q = learned(mixer.map, both[..., :size])
    k = learned(mixer.map if mixer.key_map is None else mixer.key_map, both[..., size : 2 * size])
    return q, k, both[..., 2 * size :]


def output(mixer: LinearAttention, y: Tensor, x: Tensor) -> Tensor:
    if len(list(mixer.norm.parameters())):
        scale = (y.square().mean(-1, keepdim=True) + mixer.norm.eps).sqrt()
        y = y / scale * mixer.norm.weight
    if mixer.decay is not None:
        gate = mixer.decay.gate_proj
        y = y * (torch.einsum("btd,hd->bht", x, gate.weight) + gate.bias[:, None])[..., None]
    y = y.permute(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1)
    return torch.einsum("btd,ed->bte", y, mixer.out_proj.weight)


def affine(map, x: Tensor) -> Tensor:
    return torch.einsum("bhtc,ec->bhte", x, map.proj.weight) + map.proj.bias


def quadratic_forms(map, x: Tensor) -> Tensor:
    """((W1 x)_r^2 + sum over c of W2_rc x_c^2) / sqrt 2, one row r after another."""
    rows = zip(map.squared, map.squares, strict=True)
    return torch.stack([((x * a).sum(-1) ** 2 + (x**2 * b).sum(-1)) / math.sqrt(2) for a, b in rows], dim=-1)


def normed(map, x: Tensor) -> Tensor:
    x = x - x.mean(-1, keepdim=True)
    return map.gamma * x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() + map.beta


def taylor(map, q: Tensor, k: Tensor, t: int) -> Tensor:
    u = (q * k).sum(-1) / math.sqrt(k.shape[-1])
    return 1 + u + u**2 / 2


def cosine(map, q: Tensor, k: Tensor, t: int) -> Tensor:
    age = t - torch.arange(t + 1, dtype=k.dtype)
    return (relu(map, q) * relu(map, k)).sum(-1) * torch.cos(math.pi * age / (2 * map.max_len))


def favor(map, q: Tensor, k: Tensor, t: int) -> Tensor:
    """The mean over rows w of exp(w q' - q'^2 / 2) exp(w k' - k'^2 / 2), q' = q / C^(1/4)."""
    q, k = (part / k.shape[-1] ** 0.25 for part in (q, k))
    lengths = q.square().sum(-1) + k.square().sum(-1)
    return sum(torch.exp(((q + k) * w).sum(-1) - lengths / 2) for w in map.projection.T) / map.num_features


def square_of_dot(map, q: Tensor, k: Tensor, t: int) -> Tensor:
    return (q * k).sum(-1) ** 2 / k.shape[-1]


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
    return torch.cat([relu(map, x) * angle.cos(), relu(map, x) * angle.sin()], dim=-1)


def favor_features(map, x: Tensor) -> Tensor:
    x = x / x.shape[-1] ** 0.25
    rows = [torch.exp((x * w).sum(-1) - x.square().sum(-1) / 2) for w in map.projection.T]
    return torch.stack(rows, dim=-1) / map.num_features**0.5


def two_softmaxes(map, x: Tensor) -> Tensor:
    halves = x.exp(), (1 / x.exp())
    return torch.cat([half / half.sum(-1, keepdim=True) for half in halves], dim=-1)


def neighbours(map, x: Tensor) -> Tensor:
    """r_i r_{i-j} of r = [max(x, 0), max(-x, 0)], indices around a ring of 2 C."""
    r = [x[..., i].clamp(min=0) for i in range(x.shape[-1])]
    r += [-x[..., i].clamp(max=0) for i in range(x.shape[-1])]
    pairs = [r[i] * r[(i - j) % len(r)] for j in range(1, map.nu + 1) for i in range(len(r))]
    return torch.stack(pairs, dim=-1)


# name of the map -> its learned part, of queries and keys
LEARNED = {"Hedgehog": affine, "AllPoly": quadratic_forms, "ReBased": normed}
# name of the map -> the features of what that gives
FEATURES = {
    "Taylor2": taylor_features,
    "Identity": lambda map, x: x,
    "Relu": relu,
    "PosElu": elu_plus_one,
    "Square": lambda map, x: x * x,
    "CosFormer": cosine_features,
    "Performer": favor_features,
    "Hedgehog": two_softmaxes,
    "AllPoly": lambda map, x: x,
    "DPFP": neighbours,
}
WRITTEN = {"Taylor2": taylor, "CosFormer": cosine, "Performer": favor, "ReBased": square_of_dot}
# name of the map -> its weights of the keys k [B H t+1 C] for the query q [B H 1 C] at 0-based time t
WEIGHTS = {name: dot(phi) for name, phi in FEATURES.items()} | WRITTEN
