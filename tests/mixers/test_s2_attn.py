"""S^2-Attn: the leak of the published shift; its definition: tests/definitions."""

import torch

from zoo.mixers import S2Attn


@torch.no_grad()
def test_the_first_tokens_do_not_see_the_last():
    """Shifted by a roll, as in the authors' code, the first half group attends to the end of the sequence."""
    mixer = S2Attn(d_model=8, num_heads=2, group_size=8).double()
    x = torch.randn(1, 32, 8, dtype=torch.float64)
    moved = torch.cat([x[:, :28], torch.randn(1, 4, 8, dtype=torch.float64)], dim=1)
    torch.testing.assert_close(mixer(moved)[:, :28], mixer(x)[:, :28], rtol=0, atol=1e-12)
