"""H3 against its two recurrences, its initial values, and its sizes."""

import math

import pytest
import torch
from torch import Tensor

from tests.mixers.golden import two_layers
from tests.mixers.population import check_population
from zoo.mixers.h3 import H3
from zoo.mixers.s4d import S4D


def diagonal(s: S4D, h: int, u: Tensor) -> Tensor:
    """The h-th state space on one input [T], bilinear, one complex step after another."""
    A = torch.complex(-s.A_log_real[h].exp(), s.A_imag[h])
    dt = s.log_dt[h].exp()
    decay, drive = (1 + dt * A / 2) / (1 - dt * A / 2), dt / (1 - dt * A / 2)
    C, x, ys = torch.view_as_complex(s.C[h]), torch.zeros_like(A), []
    for u_t in u:
        x = decay * x + drive * u_t
        ys.append(2 * (C * x).real.sum() + s.D[h] * u_t)
    return torch.stack(ys)


def shifted(m: H3, k: Tensor) -> Tensor:
    """The shift state space on [T D]: x <- S x + B k_t, out C x + D k_t."""
    x, ys = torch.zeros(m.d_model, m.d_state, dtype=k.dtype), []
    for k_t in k:
        x = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1) + m.shift.B * k_t[:, None]
        ys.append((m.shift.C * x).sum(1) + m.shift.D * k_t)
    return torch.stack(ys)


def by_definition(m: H3, x: Tensor) -> Tensor:
    q, k, v = (x @ m.qkv_proj.weight.T + m.qkv_proj.bias).chunk(3, dim=-1)
    k, p = shifted(m, k), m.head_dim
    y = torch.zeros_like(q)
    heads = m.d_model // p
    for h in range(heads):
        for i in range(h, m.d_model, heads):
            for j in range(h, m.d_model, heads):
                y = (
                    y
                    + torch.eye(m.d_model, dtype=x.dtype)[j]
                    * (q[:, i] * diagonal(m.keep, h, k[:, i] * v[:, j]))[:, None]
                )
    return y @ m.out_proj.weight.T + m.out_proj.bias


@pytest.mark.parametrize(
    "settings", [{"d_state": 4}, {"d_state": 6, "head_dim": 1}, {"d_state": 2, "head_dim": 4}]
)
@pytest.mark.parametrize("length", [9, 66])  # matrices, then transforms
def test_it_is_two_recurrences_between_gates(settings, length):
    mixer = H3(4, **settings).double()
    x = torch.randn(1, length, 4, dtype=torch.float64, requires_grad=True)
    y = by_definition(mixer, x[0])[None]
    torch.testing.assert_close(mixer(x), y, rtol=1e-9, atol=1e-10)
    inputs = [x, *mixer.parameters()]
    got = torch.autograd.grad(mixer(x).sin().sum(), inputs)
    want = torch.autograd.grad(y.sin().sum(), inputs)
    torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("head_dim", [1, 2])  # the published step() raises for more than 1
def test_a_long_sequence_in_pieces_is_the_whole(head_dim):
    mixer, x = H3(4, d_state=8, head_dim=head_dim).double(), torch.randn(2, 150, 4, dtype=torch.float64)
    with torch.no_grad():
        parts, state = [], None
        for piece in x.split([1, 16, 70, 1, 1, 61], dim=1):
            y, state = mixer.extend(piece, state)
            parts.append(y)
        torch.testing.assert_close(torch.cat(parts, 1), mixer(x), rtol=1e-10, atol=1e-11)


def test_initial_values_are_s4d_lin():
    torch.manual_seed(1)
    keep = H3(128, d_state=32).keep
    torch.testing.assert_close(-keep.A_log_real.exp(), torch.full((64, 16), -0.5))
    torch.testing.assert_close(keep.A_imag, math.pi * torch.arange(16.0).expand(64, 16))
    assert keep.log_dt.exp().min() >= 1e-3
    assert keep.log_dt.exp().max() <= 1e-1
    assert keep.log_dt.std().item() == pytest.approx(math.log(100) / math.sqrt(12), rel=0.2)
    assert torch.view_as_complex(keep.C).abs().square().mean().item() == pytest.approx(1, rel=0.1)


def test_a_fresh_shift_is_its_own_filter_and_everything_is_drawn():
    shift = H3(64, d_state=16).shift
    w = shift.taps()
    torch.testing.assert_close(w[:, 1:], shift.C[:, 1:])
    torch.testing.assert_close(w[:, 0], shift.C[:, 0] + shift.D)
    assert shift.C.abs().max() <= 0.25
    assert shift.C.std().item() == pytest.approx(0.25 / math.sqrt(3), rel=0.1)


def test_only_what_sets_time_scales_is_not_decayed():
    free = {n for n, p in H3(4, d_state=4).named_parameters() if getattr(p, "no_weight_decay", False)}
    assert free == {"shift.B", "shift.D", "keep.log_dt", "keep.A_log_real", "keep.A_imag", "keep.D"}


@pytest.mark.parametrize(
    ("d_model", "paper", "resident"), [(64, 2048, 6016), (128, 8192, 24320), (256, 32768, 97792)]
)
def test_two_layers_hold_what_was_published_and_what_it_left_out(d_model, paper, resident):
    size = two_layers("h3", d_model, 1024, d_state=d_model // 4, head_dim=2)
    assert (size.paper, size.resident, size.touched) == (paper, resident, resident)


@pytest.mark.parametrize("length", [1, 20, 70])
def test_members_of_a_population_are_as_alone(length):
    check_population(lambda: H3(4, d_state=4), torch.randn(2, 2, length, 4, dtype=torch.float64))


def test_large_inputs_and_long_sequences_stay_finite():
    mixer, x = H3(8, d_state=8), 100 * torch.randn(1, 4096, 8)
    y = mixer(x)
    y.square().mean().backward()
    assert y.isfinite().all()
    assert all(p.grad.isfinite().all() for p in mixer.parameters())


def test_single_precision_kernels_hold_over_long_sequences():
    torch.manual_seed(0)
    keep = S4D(8, 32)
    exact = S4D(8, 32).double()
    exact.load_state_dict(keep.state_dict())
    error = (keep.kernel(4096).double() - exact.kernel(4096)).abs().max() / exact.kernel(4096).abs().max()
    assert error < 1e-3


@pytest.mark.parametrize(
    ("wrong", "name"),
    [({"d_state": 5}, "d_state"), ({"d_state": 0}, "d_state"), ({"head_dim": 3}, "d_model")],
)
def test_impossible_settings_are_refused(wrong, name):
    with pytest.raises(ValueError, match=rf"{name} \(="):
        H3(8, **({"d_state": 4} | wrong))
