"""The head's loss in Triton on a GPU at real sizes: pytest -m gpu.  None has run it yet."""

import pytest
import torch
from torch import Tensor

from tests.kernels.agreement import captured_as_called, near_in_norm, results, same_bits_twice, upstreams_of
from zoo.kernels.linear_cross_entropy import linear_cross_entropy_chunked, linear_cross_entropy_reference

pytest.importorskip("triton")
from zoo.kernels.linear_cross_entropy.triton import linear_cross_entropy_triton

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
SIZES = [  # N, V, D
    (1024, 8192, 64),  # a Figure 2 batch of 4 pairs
    (16384, 8192, 128),  # of 64 pairs
    (1000, 8191, 256),
    (333, 1025, 512),
    (77, 130, 100),
    (1, 3, 16),
]


def problem(size: tuple[int, int, int], dtype: torch.dtype, members: tuple[int, ...] = ()) -> list[Tensor]:
    rows, words, width = size
    rng = torch.Generator("cuda").manual_seed(0)
    made = [torch.randn(*members, n, width, generator=rng, device="cuda", dtype=dtype) for n in (rows, words)]
    x, weight = (t.mul_(width**-0.25).requires_grad_() for t in made)
    return [x, weight, torch.randint(words, (*members, rows), generator=rng, device="cuda")]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_as_near_to_float64_as_torch_in_the_same_dtype(size, dtype: torch.dtype, poisoned: None):
    near_in_norm(linear_cross_entropy_triton, linear_cross_entropy_reference, problem(size, dtype))


def test_under_autocast_it_is_near_to_the_chunked_form():
    inputs = problem((1000, 8192, 64), torch.float32)
    upstreams = upstreams_of(linear_cross_entropy_reference, inputs)
    with torch.autocast("cuda", torch.bfloat16):
        ours, theirs = (
            results(form, inputs, upstreams)
            for form in (linear_cross_entropy_triton, linear_cross_entropy_chunked)
        )
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.dtype == other.dtype == torch.float32
        assert (mine - other).norm() <= 0.02 * other.norm()


def test_members_get_what_they_get_alone():
    x, weight, target = problem((200, 1000, 64), torch.float32, members=(4,))
    losses = torch.vmap(linear_cross_entropy_triton)(x, weight, target)
    grads = torch.autograd.grad(losses.sum(), (x, weight))
    for i in range(4):
        own = [x[i].detach().requires_grad_(), weight[i].detach().requires_grad_(), target[i]]
        one = torch.ones((), dtype=torch.float64)
        pairs = zip(
            (losses[i], grads[0][i], grads[1][i]),
            results(linear_cross_entropy_triton, own, [one]),
            strict=True,
        )
        for stacked, alone in pairs:
            torch.testing.assert_close(stacked, alone, rtol=1e-4, atol=1e-6)


def test_two_runs_give_the_same_bits():
    same_bits_twice(linear_cross_entropy_triton, problem((1024, 8192, 64), torch.bfloat16))


def test_a_captured_graph_gives_what_a_call_gives():
    captured_as_called(linear_cross_entropy_triton, problem((1024, 8192, 64), torch.bfloat16))
