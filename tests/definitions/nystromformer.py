"""Nystromformer: three softmax matrices, Xiong et al. 2021 (arXiv 2102.03902), Algorithm 1."""

import torch
from torch import Tensor

from tests.definitions.attention import heads, project
from zoo.mixers.nystromformer import Nystromformer


def definition(mixer: Nystromformer, x: Tensor) -> Tensor:
    columns = [one_head(mixer, *parts) for parts in zip(*heads(mixer.qkv, x), strict=True)]
    if mixer.taps is not None:
        _, _, values = heads(mixer.qkv, x)
        taps = mixer.taps[:, 0]
        columns = [y + around(v, of_head) for y, v, of_head in zip(columns, values, taps, strict=True)]
    return project(mixer.out_proj, torch.cat(columns, dim=-1))


def one_head(mixer: Nystromformer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """[B T C].  tensor_split makes the first segments one longer where the lengths cannot be equal."""
    count = mixer.num_landmarks
    if q.shape[1] <= count:
        return weights(q, k) @ v
    q_means, k_means = (torch.stack([s.mean(1) for s in part.tensor_split(count, 1)], 1) for part in (q, k))
    middle, rows = weights(q_means, k_means), []
    for a in middle:
        z = a.T / (a.sum(1).max() * a.sum(0).max())
        for _ in range(mixer.num_iterations):
            az = a @ z
            z = 13 / 4 * z - 15 / 4 * z @ az + 7 / 4 * z @ az @ az - z @ az @ az @ az / 4
        rows.append(z)
    return weights(q, k_means) @ torch.stack(rows) @ (weights(q_means, k) @ v)


def weights(q: Tensor, k: Tensor) -> Tensor:
    logits = torch.einsum("btc,bsc->bts", q, k) / q.shape[-1] ** 0.5
    return logits.exp() / logits.exp().sum(-1, keepdim=True)


def around(v: Tensor, taps: Tensor) -> Tensor:
    reach, rows = len(taps) // 2, []
    for t in range(v.shape[1]):
        near = [s for s in range(t - reach, t + reach + 1) if 0 <= s < v.shape[1]]
        rows.append(sum(taps[s - t + reach] * v[:, s] for s in near))
    return torch.stack(rows, dim=1)
