"""The selective scan: the blocked loop against the written-out recurrence, values and gradients."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.func import vmap
from torch.utils._python_dispatch import TorchDispatchMode

import zoo.kernels.selective_scan.fused_loop as fused_loop
from zoo.kernels.selective_scan import selective_scan, selective_scan_fused_loop, selective_scan_reference

SHAPES = [
    (1, 1, 1, 1),
    (2, 1, 3, 2),
    (1, 15, 4, 3),
    (3, 16, 2, 4),
    (2, 17, 5, 3),
    (2, 47, 3, 2),
    (5, 33, 8, 4),
]


def draw(B: int, T: int, D: int, N: int) -> list[Tensor]:
    """x, dt, A, B, C and a first state."""
    x, dt, A, b, c, h = (
        torch.randn(shape, dtype=torch.float64)
        for shape in ((B, T, D), (B, T, D), (D, N), (B, T, N), (B, T, N), (B, D, N))
    )
    return [s.detach().requires_grad_() for s in (x, F.softplus(dt), -A.exp(), b, c, h)]


def loss(y: Tensor, h: Tensor) -> Tensor:
    weight = torch.Generator().manual_seed(1)
    return sum((s * torch.randn(s.shape, generator=weight, dtype=s.dtype)).sum() for s in (y.sin(), h.cos()))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_reference_is_the_recurrence_scalar_by_scalar(shape):
    B, T, D, N = (min(n, 5) for n in shape)
    x, dt, A, b, c, h = (s.detach() for s in draw(B, T, D, N))
    y, last = selective_scan_reference(x, dt, A, b, c, h)
    for i in range(B):
        for d in range(D):
            state = h[i, d].clone()
            for t in range(T):
                for n in range(N):
                    decay = torch.exp(dt[i, t, d] * A[d, n])
                    state[n] = decay * state[n] + dt[i, t, d] * b[i, t, n] * x[i, t, d]
                torch.testing.assert_close(y[i, t, d], state @ c[i, t])
            torch.testing.assert_close(last[i, d], state)


@pytest.mark.parametrize("cached", [1, 64, 1 << 18])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_blocked_loop_agrees_with_the_reference(shape, cached, monkeypatch):
    monkeypatch.setattr(fused_loop, "CACHED", cached)  # from one sequence at a time to all of them
    inputs = draw(*shape)
    fast, slow = selective_scan_fused_loop(*inputs), selective_scan_reference(*inputs)
    torch.testing.assert_close(fast, slow, rtol=1e-11, atol=1e-11)
    gradients = [torch.autograd.grad(loss(*out), inputs) for out in (fast, slow)]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("length", [1, 20])
def test_no_state_is_a_state_of_zeros(length):
    *inputs, h = draw(2, length, 3, 4)
    torch.testing.assert_close(selective_scan(*inputs), selective_scan(*inputs, torch.zeros_like(h)))


@pytest.mark.parametrize("length", [1, 37])
@pytest.mark.parametrize("shared", [(), (0,), (2,), (1, 3, 5)])
def test_members_of_a_population_are_scanned_apart(length, shared):
    members = [draw(2, length, 3, 4) for _ in range(3)]
    dims = tuple(None if i in shared else 0 for i in range(6))
    stacks = [
        members[0][i] if i in shared else torch.stack([m[i] for m in members]).detach().requires_grad_()
        for i in range(6)
    ]
    together = vmap(selective_scan, dims)(*stacks)
    alone = [selective_scan(*[s if i in shared else s[p] for i, s in enumerate(stacks)]) for p in range(3)]
    alone = tuple(torch.stack(part) for part in zip(*alone, strict=True))
    torch.testing.assert_close(together, alone, rtol=1e-11, atol=1e-11)
    gradients = [torch.autograd.grad(loss(*out), stacks) for out in (together, alone)]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-10)


class Largest(TorchDispatchMode):
    scalars = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        del types
        out = func(*args, **(kwargs or {}))
        for part in out if isinstance(out, tuple) else (out,):
            if isinstance(part, Tensor):
                self.scalars = max(self.scalars, part.untyped_storage().nbytes() // part.itemsize)
        return out


def memory(scan, inputs: list[Tensor]) -> tuple[int, int]:
    """Scalars of the largest tensor in forward and backward, and of all that is saved between the two."""
    saved = []
    with Largest() as seen, saved_tensors_hooks(lambda s: saved.append(s) or s, lambda s: s):
        scan(*inputs)[0].sum().backward()
    return seen.scalars, sum(s.numel() for s in saved)


def test_nothing_has_a_state_for_every_token():
    B, T, D, N = 32, 128, 32, 16
    full = B * T * D * N
    assert full >= 4 * fused_loop.CACHED
    largest, saved = memory(selective_scan_fused_loop, draw(B, T, D, N))
    assert largest <= full // 4
    assert saved <= full // 2
    _, saved = memory(selective_scan_reference, draw(B, T, D, N))
    assert saved >= 2 * full  # the reference shows that the measure would have seen it


def test_strong_decay_and_large_inputs_stay_finite_in_single_precision():
    x, dt, A, b, c, _ = (s.detach().float() for s in draw(1, 4096, 2, 4))
    inputs = [s.requires_grad_() for s in (100 * x, 100 * dt, 100 * A, 100 * b, 100 * c)]
    y, h = selective_scan(*inputs)
    gradients = torch.autograd.grad(y.mean() + h.mean(), inputs)
    assert all(s.isfinite().all() for s in (y, h, *gradients))


def test_half_precision_in_and_out_single_precision_between():
    x, dt, A, b, c, h = (s.detach() for s in draw(2, 40, 3, 4))
    half = [s.bfloat16() for s in (x, dt)], A.float(), [s.bfloat16() for s in (b, c)]
    y, last = selective_scan(*half[0], half[1], *half[2], h.float())
    assert (y.dtype, last.dtype) == (torch.bfloat16, torch.float32)
    exact, _ = selective_scan(*(s.double() for s in half[0]), A, *(s.double() for s in half[2]), h)
    torch.testing.assert_close(y.double(), exact, rtol=0.03, atol=0.05)
