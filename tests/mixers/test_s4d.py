"""S4D: initial values, and that both discretisations are the same system for small steps."""

import math

import torch

from zoo.mixers.diagonal_ssm import DiagonalSSM


def test_zero_order_hold_is_exact_for_an_input_that_holds_still():
    """h(t) = (exp(t A) - 1) / A after a step of one, whatever the step size; bilinear is near."""
    ssm = DiagonalSSM(3, 4, "zoh").double()
    with torch.no_grad():
        state = ssm.advance(torch.ones(1, 25, 1, 3, dtype=torch.float64), None)[0, 0]
        A = torch.complex(-ssm.A_log_real.exp(), ssm.A_imag)
        exact = (torch.exp(25 * ssm.log_dt.exp()[:, None] * A) - 1) / A
        torch.testing.assert_close(state, torch.cat([exact.real, exact.imag], dim=-1))


def test_the_two_rules_agree_for_small_steps():
    kernels = []
    for rule in ("zoh", "bilinear"):
        torch.manual_seed(0)
        ssm = DiagonalSSM(4, 8, rule).double()
        with torch.no_grad():
            ssm.log_dt.fill_(math.log(1e-4))
            kernels.append(ssm.kernel(50)[:, 1:])
    assert not torch.equal(*kernels)
    torch.testing.assert_close(*kernels, rtol=1e-3, atol=1e-9)


def test_large_steps_stay_stable():
    """Real parts are negative by construction: no training step can make the kernel grow."""
    for rule in ("zoh", "bilinear"):
        ssm = DiagonalSSM(4, 8, rule)
        with torch.no_grad():
            ssm.log_dt.fill_(3.0)
            assert ssm.kernel(300)[:, -1].abs().max() <= ssm.kernel(300)[:, 1:].abs().max()
            assert ssm.kernel(300).isfinite().all()
