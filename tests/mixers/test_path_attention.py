"""PaTH attention with whole reflections; its definition: tests/definitions."""

import torch

from zoo.mixers import PathAttention


@torch.no_grad()
def test_keys_keep_their_length_under_whole_reflections():
    """beta = 2 is a reflection; what is kept never grows, however many tokens pass."""
    mixer, x = PathAttention(d_model=16, num_heads=2), torch.randn(1, 2000, 16)
    mixer.beta_proj.bias.fill_(50)
    _, state = mixer.extend(x)
    torch.testing.assert_close(state.k.norm(dim=-1), mixer.qkv(x)[1].norm(dim=-1), rtol=1e-3, atol=1e-4)
