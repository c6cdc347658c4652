"""Memory caching: each segment's memory and mean by itself, at every token (arXiv 2602.24281)."""

import torch
from torch import Tensor

from tests.definitions.deltanet import norm_1
from tests.definitions.gated_deltanet import output
from zoo.mixers.memory_caching import MemoryCaching


def definition(m: MemoryCaching, x: Tensor) -> Tensor:
    q, k, v = (x @ m.qkv.weight.T).reshape(*x.shape[:2], 3, m.num_heads, -1).unbind(2)
    q, k, rows = norm_1(q), norm_1(k), []
    for b in range(x.shape[0]):
        ys = []
        for t in range(x.shape[1]):
            starts = range(0, t + 1, m.segment_len)
            parts = [slice(s, min(s + m.segment_len, t + 1)) for s in starts]
            if m.gated:
                seek = m.seek.weight @ x[b, t]
                scores = torch.stack([seek @ x[b, part].mean(0) for part in parts])
                ended = sorted(range(len(parts) - 1), key=scores.tolist().__getitem__, reverse=True)
                read = [*ended[: m.top_k], len(parts) - 1]
                gates = torch.softmax(scores[read], dim=0)
            else:
                read, gates = range(len(parts)), torch.ones(len(parts)).double()
            memory = sum(
                g * torch.einsum("shk,shv->hkv", k[b, parts[i]], v[b, parts[i]])
                for g, i in zip(gates, read, strict=True)
            )
            ys.append(torch.einsum("hkv,hk->hv", memory, q[b, t]))
        rows.append(torch.stack(ys))
    return output(m, torch.stack(rows), x)
