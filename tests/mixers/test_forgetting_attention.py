"""Forgetting attention with its gates open, shut and at the start; its definition: tests/definitions."""

import torch

from zoo.mixers import Attention, ForgettingAttention


@torch.no_grad()
def test_open_gates_are_attention_and_shut_gates_leave_the_token_alone():
    whole = Attention(d_model=16, num_heads=2, bias=False).double()
    x = torch.randn(2, 20, 16, dtype=torch.float64)
    mixer = ForgettingAttention(d_model=16, num_heads=2).double()
    mixer.qkv.load_state_dict(whole.qkv.state_dict())
    mixer.out_proj.load_state_dict(whole.out_proj.state_dict())
    mixer.gate.bias.fill_(50)
    torch.testing.assert_close(mixer(x), whole(x))
    mixer.gate.bias.fill_(-50)
    values = x @ mixer.qkv.proj.weight[32:].T
    torch.testing.assert_close(mixer(x), values @ mixer.out_proj.weight.T)


def test_gates_start_where_they_are_told():
    assert ForgettingAttention(d_model=16, num_heads=4).gate.bias.eq(0).all()
    assert ForgettingAttention(d_model=16, num_heads=4, gate_bias=2.0).gate.bias.eq(2).all()
