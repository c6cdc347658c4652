"""Q-Delta: the delta rule's error of key and query together, Park et al. 2026 (arXiv 2606.08804)."""

import torch
from torch import Tensor

from tests.definitions import gated_deltanet
from zoo.mixers.q_delta import QDelta


def definition(m: QDelta, x: Tensor) -> Tensor:
    q, k, v, beta, log_alpha = gated_deltanet.inputs(m, x)
    share = m.most / (1 + torch.exp(0.9 - x @ m.share.weight.T))
    S = x.new_zeros(x.shape[0], m.num_heads, m.head_dim, v.shape[-1])
    ys = []
    for t in range(x.shape[1]):
        S = torch.exp(log_alpha[:, t, :, None, None]) * S
        predicted = torch.einsum("bhkv,bhk->bhv", S, k[:, t] + share[:, t, :, None] * q[:, t])
        error = beta[:, t, :, None] * (v[:, t] - predicted)
        S = S + k[:, t, :, :, None] * error[:, :, None, :]
        ys.append(torch.einsum("bhkv,bhk->bhv", S, q[:, t]) / m.head_dim**0.5)
    return gated_deltanet.output(m, torch.stack(ys, dim=1), x)
