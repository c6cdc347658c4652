"""MLA's scale, and what it refuses; its definition: tests/definitions."""

import torch

from zoo.mixers import MLA, Attention


@torch.no_grad()
def test_with_keys_and_values_as_latents_of_unit_length_it_is_multi_query_attention():
    """Rank as wide as the model, projections that pass the latent on: one head, its own keys as values."""
    mixer = MLA(d_model=8, num_heads=1, kv_rank=8, rope_dim=0).double()
    whole = Attention(d_model=8, bias=False).double()
    x = torch.randn(2, 12, 8, dtype=torch.float64)
    mixer.key_proj.weight.copy_(torch.eye(8))
    mixer.value_proj.weight.copy_(torch.eye(8))
    mixer.down_proj.weight.copy_(torch.eye(8))
    x = x / x.square().mean(-1, keepdim=True).sqrt()
    mixer.norm.eps = 0.0
    whole.qkv.proj.weight.copy_(torch.cat([mixer.q_proj.weight, torch.eye(8), torch.eye(8)]))
    whole.out_proj.weight.copy_(mixer.out_proj.weight)
    torch.testing.assert_close(mixer(x), whole(x))


def test_the_heads_share_what_is_kept():
    sizes = [
        MLA(d_model=16, num_heads=heads, kv_rank=6, rope_dim=4).state_size(50).resident for heads in (1, 4)
    ]
    assert sizes == [500, 500]
