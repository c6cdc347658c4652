"""PaTH attention in chunks against one token after another."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.kernels.path_attention import path_attention, path_attention_reference


def inputs(length: int, past: int, groups: int) -> list[Tensor]:
    shapes = (2, length), (groups, past + length), (groups, past + length), (groups, length)
    q, k, v, w = (torch.randn(2, heads, tokens, 5, dtype=torch.float64) for heads, tokens in shapes)
    beta = 2 * torch.rand(2, groups, length, dtype=torch.float64)
    return [part.requires_grad_() for part in (q, k, v, F.normalize(w, dim=-1), beta)]


@pytest.mark.parametrize("length", [1, 37, 63, 64, 65, 130])
@pytest.mark.parametrize("past", [0, 1, 70])
def test_agrees_with_the_reference(length: int, past: int):
    given = inputs(length, past, groups=1 + length % 2)
    got, want = path_attention(*given), path_attention_reference(*given)
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)
    upstream = [torch.randn_like(part) for part in want]
    grads = (torch.autograd.grad(pair, given, upstream) for pair in (got, want))
    torch.testing.assert_close(*grads, rtol=1e-10, atol=1e-10)
