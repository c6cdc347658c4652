"""Taylor attention's Triton kernels on a GPU at real sizes: pytest -m gpu.  None has run them yet."""

import pytest
import torch
from torch import Tensor

from zoo.kernels.taylor_attention import taylor_attention_reference

pytest.importorskip("triton")
from zoo.kernels.taylor_attention.triton import taylor_attention_triton

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
EPS = 1e-6
SIZES = [  # B, H, T, C, V
    (64, 1, 256, 16, 64),  # a Figure 2 cell
    (64, 1, 64, 24, 128),
    (8, 4, 333, 9, 33),
    (2, 2, 1024, 32, 128),
    (2, 2, 1023, 16, 200),
    (3, 1, 1, 8, 16),
]


def heads(size: tuple[int, int, int, int, int], dtype: torch.dtype) -> list[Tensor]:
    batch, count, length, channels, width = size
    rng = torch.Generator("cuda").manual_seed(0)
    whole = torch.randn(
        batch, length, count * (2 * channels + width), generator=rng, device="cuda", dtype=dtype
    )
    parts = whole.unflatten(-1, (count, -1)).transpose(1, 2).split([channels, channels, width], -1)
    return [part.detach().requires_grad_() for part in parts]


def gradients(function, inputs: list[Tensor], upstream: Tensor) -> list[Tensor]:
    y = function(*inputs, EPS)
    return [y.detach(), *torch.autograd.grad(y, inputs, upstream.to(y))]


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not written is NaN."""
    new_empty, empty_like = Tensor.new_empty, torch.empty_like
    monkeypatch.setattr(Tensor, "new_empty", lambda x, *a, **k: new_empty(x, *a, **k).fill_(torch.nan))
    monkeypatch.setattr(torch, "empty_like", lambda *a, **k: empty_like(*a, **k).fill_(torch.nan))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_as_near_to_float64_as_torch_in_the_same_dtype(size, dtype: torch.dtype, poisoned: None):
    """Errors of y, dq, dk and dv in norm: at most twice torch's, which rounds each intermediate result."""
    inputs = heads(size, dtype)
    upstream = torch.randn(*size[:3], size[4], device="cuda", dtype=dtype)
    torch.backends.cuda.matmul.allow_tf32 = False
    exact = gradients(
        taylor_attention_reference, [x.detach().double().requires_grad_() for x in inputs], upstream
    )
    theirs = gradients(taylor_attention_reference, inputs, upstream)
    ours = gradients(taylor_attention_triton, inputs, upstream)
    for name, a, b, true in zip(("y", "dq", "dk", "dv"), ours, theirs, exact, strict=True):
        error, allowed = (a - true).norm() / true.norm(), (b - true).norm() / true.norm()
        assert error <= 2 * allowed + 4 * torch.finfo(dtype).eps, (name, float(error), float(allowed))


def test_two_runs_give_the_same_bits():
    inputs = heads((8, 4, 333, 16, 64), torch.bfloat16)
    upstream = torch.randn(8, 4, 333, 64, device="cuda", dtype=torch.bfloat16)
    one, other = (gradients(taylor_attention_triton, inputs, upstream) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_captured_graph_gives_what_a_call_gives():
    q, k, v = (x.detach() for x in heads((8, 2, 100, 16, 64), torch.bfloat16))
    expected = taylor_attention_triton(q, k, v, EPS)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = taylor_attention_triton(q, k, v, EPS)
    y.zero_()
    graph.replay()
    assert torch.equal(y, expected)
