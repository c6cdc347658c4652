"""Run by test_interpreted.py: the selective scan in Triton's interpreter, in float32, against float64."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.kernels.agreement import as_near_as_torch, gradients_inside_vmap, members_as_alone
from zoo.kernels.choice import kernels
from zoo.kernels.selective_scan import selective_scan, selective_scan_reference
from zoo.kernels.selective_scan.triton import selective_scan_triton, unfit

SIZES = [(1, 1, 1, 1), (2, 7, 17, 3), (1, 8, 2, 16), (2, 19, 3, 9), (1, 5, 2, 64)]  # B, T, D, N


def draw(batch: int, length: int, width: int, d_state: int) -> list[Tensor]:
    """x, dt, A, B, C and a first state; B and C as a mixer has them: pieces of one projection."""
    rng = torch.Generator().manual_seed(length)
    x, dt = torch.randn(2, batch, length, width, generator=rng)
    maps = torch.randn(batch, length, 3 + 2 * d_state, generator=rng)[..., 3:].chunk(2, -1)
    A = -torch.randn(width, d_state, generator=rng).exp()
    state = torch.randn(batch, width, d_state, generator=rng)
    return [s.detach().requires_grad_() for s in (x, F.softplus(dt), A, *maps, state)]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_outputs_and_gradients(size: tuple[int, int, int, int]):
    as_near_as_torch(selective_scan_triton, selective_scan_reference, draw(*size))


def test_no_state_is_a_state_of_zeros():
    as_near_as_torch(selective_scan_triton, selective_scan_reference, draw(2, 9, 3, 4)[:5])


def test_a_sequence_in_two_pieces():
    """The gradient of the second half reaches the first through the state."""

    def halves(*inputs: Tensor) -> tuple[Tensor, Tensor]:
        x, dt, A, B, C, state = inputs
        y, state = selective_scan_triton(x[:, :5], dt[:, :5], A, B[:, :5], C[:, :5], state)
        z, state = selective_scan_triton(x[:, 5:], dt[:, 5:], A, B[:, 5:], C[:, 5:], state)
        return torch.cat([y, z], 1), state

    as_near_as_torch(halves, selective_scan_reference, draw(1, 11, 3, 4))


@pytest.mark.parametrize("part", [0, 1])
def test_a_loss_may_read_one_output_alone(part: int):
    inputs = draw(1, 9, 3, 4)
    grads = [
        torch.autograd.grad(scan(*inputs)[part].square().sum(), inputs, materialize_grads=True)
        for scan in (selective_scan_triton, selective_scan_reference)
    ]
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("length", [1, 9])
@pytest.mark.parametrize("in_dims", [(0,) * 6, (None, 0, None, 1, 0, None)])
def test_stacked_members_are_more_of_the_batch(length: int, in_dims: tuple[int | None, ...]):
    """Each member has its own A, or all have one."""
    members_as_alone(selective_scan_triton, draw(2, length, 3, 4), in_dims)


def test_gradients_inside_vmap():
    gradients_inside_vmap(selective_scan_triton, draw(2, 2, 3, 4))


def test_strong_decay_and_large_inputs_stay_finite():
    inputs = [100 * s.detach() for s in draw(1, 40, 2, 4)]
    inputs = [s.requires_grad_() for s in inputs]
    y, h = selective_scan_triton(*inputs)
    grads = torch.autograd.grad(y.mean() + h.mean(), inputs)
    assert all(s.isfinite().all() for s in (y, h, *grads))


def test_a_mixer_runs_it_when_asked():
    """Whole sequences through the kernel, then token by token: the split law in float32."""
    from zoo.mixers import Mamba

    mixer = Mamba(d_model=8, d_state=4)
    x = torch.randn(2, 13, 8)
    with torch.no_grad(), kernels("triton") as choice:
        whole = mixer(x)
        head, state = mixer.extend(x[:, :12])
        tail, _ = mixer.extend(x[:, 12:], state)
    assert choice.record()["selective_scan"] == "triton"
    torch.testing.assert_close(torch.cat([head, tail], 1), whole, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(whole, mixer(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({2: torch.zeros(3, 300), 3: torch.zeros(1, 4, 300), 4: torch.zeros(1, 4, 300)}, r"d_state \(=300\)"),
        ({0: torch.zeros(1, 4, 3, dtype=torch.float64)}, "float64"),
        ({5: torch.zeros(1, 3, 5, dtype=torch.float16)}, "float16"),
        ({1: torch.zeros(1, 4, 1)}, r"x and dt must be \[B T D\]"),
        ({2: torch.zeros(3, 1)}, r"A must be \[D N\], \(3, 5\), and is \(3, 1\)"),
    ],
)
def test_what_it_cannot_take_is_refused_with_a_reason(change: dict[int, Tensor], says: str):
    inputs = [change.get(i, s) for i, s in enumerate(draw(1, 4, 3, 5))]
    with kernels("triton"), pytest.raises(ValueError, match=rf"cannot run selective_scan: .*{says}"):
        selective_scan(*inputs)


def test_each_input_has_its_own_precision():
    """Under autocast x, B and C are in half precision, dt, A and the state are not."""
    x, dt, A, B, C, state = draw(1, 3, 4, 5)
    assert unfit(x.bfloat16(), dt, A, B.bfloat16(), C.bfloat16(), state) is None
