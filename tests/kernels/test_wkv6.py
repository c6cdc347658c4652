"""RWKV-5's and 6's operation: gated linear attention one token late, against token after token."""

import pytest
import torch
from torch import Tensor

from zoo.kernels.wkv6 import wkv6, wkv6_chunked, wkv6_reference


def draw(T: int, B: int = 2, H: int = 3, K: int = 5, V: int = 4, strength: float = 1.0) -> list[Tensor]:
    """r, k, v, log_decay, bonus and a first state."""
    shapes = (B, H, T, K), (B, H, T, K), (B, H, T, V), (B, H, T, K), (H, K), (B, H, K, V)
    r, k, v, decay, bonus, state = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
    return [s.detach().requires_grad_() for s in (r, k, v, -strength * decay.exp(), bonus, state)]


def loss(y: Tensor, state: Tensor) -> Tensor:
    rng = torch.Generator().manual_seed(1)
    return sum((s * torch.randn(s.shape, generator=rng, dtype=s.dtype)).sum() for s in (y.sin(), state.cos()))


@pytest.mark.parametrize("with_state", [False, True])
@pytest.mark.parametrize("strength", [0.01, 1, 300])
@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 50])
def test_chunks_agree_with_the_reference(length, strength, with_state):
    inputs = draw(length, strength=strength)[: 6 if with_state else 5]
    fast, slow = wkv6_chunked(*inputs), wkv6_reference(*inputs)
    torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-11)
    gradients = [torch.autograd.grad(loss(*out), inputs) for out in (fast, slow)]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-10)


def test_the_reference_is_the_recurrence_as_matrices():
    r, k, v, g, u, S = (s.detach() for s in draw(9, B=1, H=1))
    y, last = wkv6_reference(r, k, v, g, u, S)
    S = S[0, 0]
    for t in range(9):
        written = torch.outer(k[0, 0, t], v[0, 0, t])
        torch.testing.assert_close(y[0, 0, t], (S + torch.diag(u[0]) @ written).T @ r[0, 0, t])
        S = torch.diag(g[0, 0, t].exp()) @ S + written
    torch.testing.assert_close(last[0, 0], S)


def test_half_precision_in_single_precision_between():
    inputs = [s.detach().bfloat16() for s in draw(40)[:5]]
    with torch.autocast("cpu", torch.bfloat16):
        y, last = wkv6(*inputs)
    assert (y.dtype, last.dtype) == (torch.float32, torch.float32)
    torch.testing.assert_close(y.double(), wkv6(*(s.double() for s in inputs))[0], rtol=1e-4, atol=1e-4)
