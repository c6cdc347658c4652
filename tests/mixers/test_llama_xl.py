"""Llama-XL: what training does not reach, and what it refuses; its definition: tests/definitions."""

import torch

from zoo.mixers import LlamaXL


def test_in_training_no_gradient_crosses_into_the_segment_before():
    mixer = LlamaXL(d_model=8, num_heads=2, segment_len=4).double()
    x = torch.randn(1, 11, 8, dtype=torch.float64)
    x.requires_grad_()
    y = mixer(x)
    for t in range(11):
        (grad,) = torch.autograd.grad(y[0, t].sum(), x, retain_graph=True)
        reached = (grad[0] != 0).any(-1).nonzero().flatten().tolist()
        assert reached == list(range(t // 4 * 4, t + 1))
    torch.testing.assert_close(y, mixer.eval()(x))


@torch.no_grad()
def test_a_key_counts_by_its_direction_alone():
    mixer = LlamaXL(d_model=8, num_heads=1, segment_len=4).double()
    x = torch.randn(1, 9, 8, dtype=torch.float64)
    y = mixer(x)
    mixer.qkv.proj.weight[8:16] *= 7
    torch.testing.assert_close(mixer(x), y)
