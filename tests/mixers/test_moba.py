"""MoBA is SE-Attn whose chunks are its blocks: against the paper's own statement of it."""

import pytest
import torch
from torch import Tensor

from tests.definitions.attention import positioned, project
from zoo.mixers.cases import Case, build
from zoo.mixers.se_attn import SEAttn


def mixture(mixer: SEAttn, x: Tensor, size: int, k: int) -> Tensor:
    """Lu et al. 2025 (arXiv 2502.13189), Eqs. 2 to 6, one query at a time.  k counts the own block.

    Each of a head's blocks has the affinity q . mean(K); blocks to come have none, the own one the highest.
    """
    rows = []
    for heads in zip(*positioned(mixer.qkv, x), strict=True):
        q, keys, values = heads
        row = []
        for t in range(x.shape[1]):
            means = [keys[:, i : i + size].mean(1) for i in range(0, t - t % size, size)]
            affinity = [(q[:, t] * mean).sum(-1) for mean in means] + [torch.full_like(q[:, t, 0], torch.inf)]
            chosen = torch.stack(affinity).topk(min(k, len(affinity)), dim=0).indices  # blocks by batch
            seen = (torch.arange(t + 1) // size == chosen.T[..., None]).any(1)
            logits = (q[:, None, t] * keys[:, : t + 1]).sum(-1) / q.shape[-1] ** 0.5
            weights = logits.masked_fill(~seen, -torch.inf).softmax(-1)
            row.append((weights[..., None] * values[:, : t + 1]).sum(1))
        rows.append(torch.stack(row, dim=1))
    return project(mixer.out_proj, torch.stack(rows, dim=2).flatten(2))


@pytest.mark.parametrize("top_k", [1, 3, 99])
@pytest.mark.parametrize("position", ["none", "rope"])
def test_it_is_the_papers_mixture_of_blocks(top_k: int, position: str):
    mixer = build(Case("moba", {"num_heads": 4, "position": position, "top_k": top_k}))
    assert isinstance(mixer, SEAttn)
    x = torch.randn(2, 61, 16, dtype=torch.float64)
    torch.testing.assert_close(mixer(x), mixture(mixer, x, size=8, k=top_k + 1), rtol=1e-10, atol=1e-12)
