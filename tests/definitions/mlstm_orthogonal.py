"""mLSTM with an orthogonalised read: its cell step by step, Beck et al. 2024 (arXiv 2405.04517), and ours."""

import torch
from torch import Tensor

from tests.definitions import mlstm
from zoo.mixers.mlstm_orthogonal import MLSTMOrthogonal


def definition(m: MLSTMOrthogonal, x: Tensor) -> Tensor:
    def memory(q: Tensor, k: Tensor, v: Tensor, i: Tensor, f: Tensor) -> Tensor:
        C, n, top, hs = 0, 0, torch.zeros_like(i[:, 0]), []
        for t in range(q.shape[1]):
            top = torch.maximum(torch.log(f[:, t]) + top, torch.log(i[:, t])).detach()
            write, keep = i[:, t, :, None], f[:, t, :, None]
            C = keep[..., None] * C + write[..., None] * k[:, t, :, :, None] * v[:, t, :, None, :]
            n = keep * n + write * k[:, t] / m.head_dim**0.5
            X = C / C.square().sum((-1, -2), keepdim=True).sqrt()
            for _ in range(m.steps):
                X = (3 * X - X @ X.mT @ X) / 2
            size = torch.maximum((n * q[:, t]).sum(-1).abs(), torch.ones_like(top)) * torch.exp(-top) + 1e-6
            hs.append(torch.einsum("bhkv,bhk->bhv", X, q[:, t]) / size[..., None])
        return torch.stack(hs, dim=1)

    return mlstm.around(m, x, memory)
