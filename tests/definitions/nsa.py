"""NSA: three attentions for each token by itself, Yuan et al. 2025 (arXiv 2502.11089), Eqs. 5 to 12.

The importance of a block is counted in strides of the sequence: a compressed block lays its weight on every
stride that it covers, and a block gathers what lies on its own (Eq. 9, indices from 0).
"""

import math

import torch
from torch import Tensor

from tests.definitions.attention import project, turned
from zoo.mixers.nsa import NSA

PACKAGE = "fla-core: fla.ops.nsa.naive.naive_nsa_selection, naive_nsa_compression (where they do not overlap)"
PACKAGE_TOLERANCE = 1e-5  # it works in float32


def definition(mixer: NSA, x: Tensor) -> Tensor:
    q, turned_q, keys, values = heads(mixer, x)
    y = [[[] for _ in range(mixer.num_heads)] for _ in x]
    for b, g, t in every(len(x), mixer.num_kv_heads, x.shape[1]):
        if t == 0:
            ck, cv = squeezed(mixer.compress_k, keys[0][b, g]), squeezed(mixer.compress_v, values[0][b, g])
        visible = num_compressed(mixer, t + 1)
        tokens = [s for j in chosen(mixer, q[b], ck, g, t) for s in block(mixer, j, t)]
        near = list(range(max(0, t + 1 - mixer.window), t + 1))
        for h in group(mixer, g):
            one = attend(q[b, h, t], ck[:visible], cv[:visible]) if visible else torch.zeros_like(q[b, h, t])
            two = attend(turned_q[b, h, t], keys[1][b, g, tokens], values[1][b, g, tokens])
            three = attend(turned_q[b, h, t], keys[2][b, g, near], values[2][b, g, near])
            y[b][h].append(torch.stack([one, two, three]))
    return gated(mixer, x, torch.stack([torch.stack([torch.stack(head) for head in row]) for row in y]))


def package(mixer: NSA, x: Tensor) -> Tensor:
    """It reads the blocks that the definition chooses: its own choice is made in float32."""
    from fla.ops.nsa.naive import naive_nsa_compression, naive_nsa_selection

    q, turned_q, keys, values = heads(mixer, x)
    length, scale = x.shape[1], mixer.head_dim**-0.5
    ck, cv = (
        torch.stack([torch.stack([squeezed(how, head) for head in row]) for row in part])
        for how, part in ((mixer.compress_k, keys[0]), (mixer.compress_v, values[0]))
    )
    ids = torch.full((len(x), length, mixer.num_kv_heads, mixer.top_k), -1)
    for b, g, t in every(len(x), mixer.num_kv_heads, length):
        blocks = chosen(mixer, q[b], ck[b, g], g, t)
        ids[b, t, g, : len(blocks)] = torch.tensor(blocks)
    q, turned_q, ck, cv = (part.transpose(1, 2) for part in (q, turned_q, ck, cv))
    keys, values = ([part.transpose(1, 2) for part in parts] for parts in (keys, values))
    if mixer.compress_block_size == mixer.compress_stride:
        one = naive_nsa_compression(q, ck, cv, mixer.compress_block_size, scale)[0]
    else:
        last = torch.tensor([num_compressed(mixer, t + 1) for t in range(length)])
        one = masked(q, ck, cv, torch.arange(ck.shape[1]) < last[:, None])
    two = naive_nsa_selection(turned_q, keys[1], values[1], ids, mixer.block_size, scale)
    near = torch.ones(length, length).tril().triu(1 - mixer.window).bool()
    three = masked(turned_q, keys[2], values[2], near)
    return gated(mixer, x, torch.stack([one, two, three], dim=3).transpose(1, 2))


def every(*counts: int) -> list[list[int]]:
    return torch.cartesian_prod(*map(torch.arange, counts)).tolist()


def group(mixer: NSA, g: int) -> list[int]:
    """The query heads that read the keys g."""
    return [h for h in range(mixer.num_heads) if h * mixer.num_kv_heads // mixer.num_heads == g]


def heads(mixer: NSA, x: Tensor) -> tuple[Tensor, Tensor, list[Tensor], list[Tensor]]:
    """Queries as projected and turned [B H T C], keys and values of the three branches [B G T C]."""
    q = apart(project(mixer.q_proj, x), mixer.head_dim)
    parts = project(mixer.kv_proj, x).split(mixer.kv_dim, dim=-1)
    parts = [apart(part, mixer.head_dim) for part in parts] * (1 if mixer.separate_kv else 3)
    keys, values = parts[0::2], parts[1::2]
    if mixer.turn is None:
        return q, q, keys, values
    turn = lambda part: torch.stack([turned(row, *mixer.turn) for row in part])  # noqa: E731
    return q, turn(q), [keys[0], turn(keys[1]), turn(keys[2])], values


def apart(x: Tensor, head_dim: int) -> Tensor:
    return torch.stack(x.split(head_dim, dim=-1), dim=1)


def num_compressed(mixer: NSA, length: int) -> int:
    """Eq. 7: i with i * stride + size <= length."""
    size, stride = mixer.compress_block_size, mixer.compress_stride
    return len([i for i in range(length) if i * stride + size <= length])


def squeezed(how, tokens: Tensor) -> Tensor:
    """[S C] -> [N C]."""
    rows = [tokens[:0]]
    for start in range(0, len(tokens) - how.size + 1, how.stride):
        row = torch.cat([tokens[start + i] + how.places[i] for i in range(how.size)])
        hidden = how.inner.weight @ row + how.inner.bias
        hidden = hidden * (1 + torch.erf(hidden / math.sqrt(2))) / 2
        rows.append((how.outer.weight @ hidden)[None])
    return torch.cat(rows)


def block(mixer: NSA, j: int, t: int) -> range:
    return range(j * mixer.block_size, min((j + 1) * mixer.block_size, t + 1))


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = torch.exp((k * q).sum(-1) / math.sqrt(len(q)))
    return weights @ v / weights.sum()


def masked(q: Tensor, k: Tensor, v: Tensor, seen: Tensor) -> Tensor:
    """The same for all tokens at once, under a mask; [B T H C]."""
    k, v = (part.repeat_interleave(q.shape[2] // k.shape[2], dim=2) for part in (k, v))
    weights = torch.exp(torch.einsum("bthc,bshc->bhts", q, k) / math.sqrt(q.shape[-1])) * seen
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-300)
    return torch.einsum("bhts,bshc->bthc", weights, v)


@torch.no_grad()
def chosen(mixer: NSA, q: Tensor, ck: Tensor, g: int, t: int) -> list[int]:
    """Eqs. 8 to 11 for the token t of one sequence: q [H T C], and the compressed keys of the group g."""
    own, stride, visible = t // mixer.block_size, mixer.compress_stride, num_compressed(mixer, t + 1)
    on_stride = [0.0] * ((own + 1) * mixer.block_size // stride)
    for h in group(mixer, g) if visible else []:
        for i, weight in enumerate((ck[:visible] @ q[h, t] / math.sqrt(q.shape[-1])).softmax(0).tolist()):
            for u in range(mixer.compress_block_size // stride):
                on_stride[i + u] += weight
    strides = mixer.block_size // stride
    score = [sum(on_stride[j * strides : (j + 1) * strides]) for j in range(own + 1)]
    fixed = [j for j in range(own + 1) if j < mixer.initial_blocks or j > own - mixer.local_blocks]
    rest = sorted((j for j in range(own + 1) if j not in fixed), key=lambda j: (-score[j], j))
    return sorted(fixed + rest[: mixer.top_k - len(fixed)])


def gated(mixer: NSA, x: Tensor, y: Tensor) -> Tensor:
    """y [B H T 3 C]."""
    gates = 1 / (1 + torch.exp(-project(mixer.gate, x)))
    heads = [
        sum(gates[..., 3 * h + c, None] * y[:, h, :, c] for c in range(3)) for h in range(mixer.num_heads)
    ]
    return project(mixer.out_proj, torch.cat(heads, dim=-1))
