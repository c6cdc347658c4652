"""H3 in pieces and its initial values; its definition: tests/definitions."""

import math

import pytest
import torch

from zoo.mixers import H3
from zoo.mixers.diagonal_ssm import DiagonalSSM


def test_initial_values_are_s4d_lin():
    torch.manual_seed(1)
    keep = H3(d_model=128, d_state=32).keep
    torch.testing.assert_close(-keep.A_log_real.exp(), torch.full((64, 16), -0.5))
    torch.testing.assert_close(keep.A_imag, math.pi * torch.arange(16.0).expand(64, 16))
    assert keep.log_dt.exp().min() >= 1e-3
    assert keep.log_dt.exp().max() <= 1e-1
    assert keep.log_dt.std().item() == pytest.approx(math.log(100) / math.sqrt(12), rel=0.2)
    assert torch.view_as_complex(keep.C).abs().square().mean().item() == pytest.approx(1, rel=0.1)


def test_a_fresh_shift_is_its_own_filter_and_everything_is_drawn():
    shift = H3(d_model=64, d_state=16).shift
    w = shift.taps()
    torch.testing.assert_close(w[:, 1:], shift.C[:, 1:])
    torch.testing.assert_close(w[:, 0], shift.C[:, 0] + shift.D)
    assert shift.C.abs().max() <= 0.25
    assert shift.C.std().item() == pytest.approx(0.25 / math.sqrt(3), rel=0.1)


def test_single_precision_kernels_hold_over_long_sequences():
    torch.manual_seed(0)
    keep = DiagonalSSM(8, 32)
    exact = DiagonalSSM(8, 32).double()
    exact.load_state_dict(keep.state_dict())
    error = (keep.kernel(4096).double() - exact.kernel(4096)).abs().max() / exact.kernel(4096).abs().max()
    assert error < 1e-3
