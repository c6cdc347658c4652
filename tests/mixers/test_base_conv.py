"""BaseConv's two forms and its long filters against their formulas."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import silu

from zoo.mixers.base_conv import BaseConv
from zoo.mixers.long_conv import ImplicitFilter, LongConv
from zoo.state import StateSize

F64 = torch.float64


def taps(mixer: BaseConv) -> Tensor:
    """[r, c]: what input t - r adds to output t, without biases."""
    conv = mixer.conv
    if not isinstance(conv, LongConv):
        return conv.weight
    k = conv.taps.T if conv.taps is not None else conv.network(conv.max_len).T
    return torch.cat([k[:1] + conv.skip, k[1:]])


def convolved(mixer: BaseConv, u: Tensor) -> Tensor:
    k = taps(mixer)
    rows = [sum(k[r] * u[:, t - r] for r in range(min(t + 1, len(k)))) for t in range(u.shape[1])]
    bias = 0 if isinstance(mixer.conv, LongConv) else mixer.conv.bias
    return torch.stack(rows, dim=1) + bias


def written_out(mixer: BaseConv, x: Tensor, act) -> Tensor:
    if mixer.out_proj is None:
        return act(convolved(mixer, x)) * act(x @ mixer.in_proj.weight.T + mixer.in_proj.bias) + x
    both = x @ mixer.in_proj.weight.T + mixer.in_proj.bias
    u, gate = both[..., : mixer.channels], both[..., mixer.channels :]
    return (act(convolved(mixer, u)) * gate) @ mixer.out_proj.weight.T + mixer.out_proj.bias


KERNELS = [
    {"kernel_size": 3},
    {"kernel_size": 11},
    {"kernel_size": -1, "max_len": 100},
    {"kernel_size": -1, "max_len": 9, "filter": "explicit"},
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("expand", [None, 1, 4])
@pytest.mark.parametrize("activation", ["none", "silu"])
def test_is_its_formula_with_gradients(kernel: dict, expand: int | None, activation: str):
    mixer = BaseConv(6, expand=expand, activation=activation, **kernel).double()
    x = torch.randn(2, 80, 6, dtype=F64, requires_grad=True)  # long enough for the filter to go by FFT
    y, expected = mixer(x), written_out(mixer, x, silu if activation == "silu" else lambda u: u)
    torch.testing.assert_close(y, expected)
    upstream, wanted = torch.randn_like(y), [x, *mixer.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad(y, wanted, upstream), torch.autograd.grad(expected, wanted, upstream)
    )


def test_the_implicit_filter_is_a_network_of_time():
    filter = ImplicitFilter(3, max_len=20, emb_dim=7, filter_dim=4).double()
    t = 13
    angles = [2 * math.pi * band * t / 20 for band in (1e-4, 1.00005, 2.0)]
    z = torch.tensor([t / 19, *(math.cos(a) for a in angles), *(-math.sin(a) for a in angles)], dtype=F64)
    hidden = torch.relu(filter.inner.weight @ z + filter.inner.bias)
    expected = filter.outer.weight @ hidden + filter.outer.bias
    torch.testing.assert_close(filter(20)[:, t], expected, atol=1e-5, rtol=1e-5)


def test_the_implicit_filter_is_more_than_a_line():
    """With zoology's emb_dim = 3 every tap lies within rounding of a piecewise-linear function of t alone."""
    features = ImplicitFilter(3, max_len=256, emb_dim=5, filter_dim=4).features
    assert torch.linalg.matrix_rank(features, rtol=0.05) >= 4


def test_state_counts():
    assert BaseConv(64).state_size(1024) == StateSize(3 * 64, 2 * 64, 2 * 64)
    assert BaseConv(64, expand=4).state_size(1024) == StateSize(3 * 128, 2 * 128, 2 * 128)
    long = BaseConv(64, kernel_size=-1, max_len=256)
    assert long.state_size(1024) == StateSize(1024 * 64, 255 * 64, 255 * 64)
    assert long.state_size(10) == StateSize(640, 640, 640)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_stays_finite_far_out(kernel: dict):
    x = (100 * torch.randn(1, 1024, 8)).requires_grad_()
    y = BaseConv(8, activation="silu", **kernel)(x)
    y.sum().backward()
    assert y.isfinite().all()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"kernel_size": 0}, "kernel_size"),
        ({"activation": "gelu"}, "activation"),
        ({"expand": 1, "d_model": 3}, "expand"),
        ({"kernel_size": -1, "emb_dim": 3}, "emb_dim"),
        ({"kernel_size": -1, "emb_dim": 6}, "emb_dim"),
        ({"kernel_size": -1, "filter": "fixed"}, "filter"),
        ({"kernel_size": -1, "max_len": 1}, "max_len"),
    ],
)
def test_refuses_settings_that_do_not_fit(settings: dict, named: str):
    with pytest.raises(ValueError, match=named):
        BaseConv(**({"d_model": 8} | settings))
