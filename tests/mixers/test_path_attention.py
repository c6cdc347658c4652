"""PaTH attention without its reflections, and with whole ones; its definition: tests/definitions."""

import torch

from zoo.mixers import Attention, PathAttention


@torch.no_grad()
def test_without_reflections_it_is_attention():
    whole = Attention(d_model=16, num_heads=2, bias=False).double()
    x = torch.randn(2, 90, 16, dtype=torch.float64)
    mixer = PathAttention(d_model=16, num_heads=2).double()
    mixer.qkv.load_state_dict(whole.qkv.state_dict())
    mixer.out_proj.load_state_dict(whole.out_proj.state_dict())
    mixer.beta_proj.bias.fill_(-50)
    torch.testing.assert_close(mixer(x), whole(x))
    mixer.beta_proj.bias.fill_(0)
    assert (mixer(x) - whole(x)).abs().max() > 0.01


@torch.no_grad()
def test_keys_keep_their_length_under_whole_reflections():
    """beta = 2 is a reflection; what is kept never grows, however many tokens pass."""
    mixer, x = PathAttention(d_model=16, num_heads=2), torch.randn(1, 2000, 16)
    mixer.beta_proj.bias.fill_(50)
    _, state = mixer.extend(x)
    torch.testing.assert_close(state.k.norm(dim=-1), mixer.qkv(x)[1].norm(dim=-1), rtol=1e-3, atol=1e-4)
