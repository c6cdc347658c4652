"""Run by test_interpreted.py: the diagonal scan in Triton's interpreter, in float32, against float64."""

import pytest
import torch
from torch import Tensor

from tests.kernels.agreement import as_near_as_torch, gradients_inside_vmap, members_as_alone
from zoo.kernels.choice import kernels
from zoo.kernels.diagonal_scan import diagonal_scan, diagonal_scan_reference
from zoo.kernels.diagonal_scan.triton import diagonal_scan_triton


def draw(*sizes: int) -> list[Tensor]:
    """decay, x and a first state of [... T D]; decay and x as pieces of one tensor."""
    rng = torch.Generator().manual_seed(sizes[-2])
    decay, x = torch.randn(*sizes[:-1], 2 * sizes[-1], generator=rng).chunk(2, -1)
    state = torch.randn(*sizes[:-2], sizes[-1], generator=rng)
    return [s.detach().requires_grad_() for s in (decay.sigmoid(), x, state)]


@pytest.mark.parametrize("sizes", [(1, 1), (2, 17, 3), (2, 3, 16, 5), (1, 35, 40)], ids=str)
def test_outputs_and_gradients(sizes: tuple[int, ...]):
    as_near_as_torch(diagonal_scan_triton, diagonal_scan_reference, draw(*sizes))


def test_no_state_is_a_state_of_zeros():
    as_near_as_torch(diagonal_scan_triton, diagonal_scan_reference, draw(2, 9, 3)[:2])


def test_a_sequence_in_two_pieces():
    """The gradient of the second half reaches the first through the state."""

    def halves(decay: Tensor, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        h, state = diagonal_scan_triton(decay[:, :20], x[:, :20], state)
        later, state = diagonal_scan_triton(decay[:, 20:], x[:, 20:], state)
        return torch.cat([h, later], 1), state

    as_near_as_torch(halves, diagonal_scan_reference, draw(2, 41, 3))


@pytest.mark.parametrize("in_dims", [(0, 0, 0), (None, 0, 1)])
def test_stacked_members_are_more_of_the_batch(in_dims: tuple[int | None, ...]):
    members_as_alone(diagonal_scan_triton, draw(2, 17, 3), in_dims)


def test_gradients_inside_vmap():
    gradients_inside_vmap(diagonal_scan_triton, draw(2, 5, 3))


def test_a_mixer_runs_it_when_asked():
    """Whole sequences through the kernel, then token by token: the split law in float32."""
    from zoo.mixers import RGLRU

    mixer = RGLRU(d_model=8, num_heads=2)
    x = torch.randn(2, 19, 8)
    with torch.no_grad(), kernels("triton") as choice:
        whole = mixer(x)
        head, state = mixer.extend(x[:, :18])
        tail, _ = mixer.extend(x[:, 18:], state)
    assert choice.record()["diagonal_scan"] == "triton"
    torch.testing.assert_close(torch.cat([head, tail], 1), whole, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(whole, mixer(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ((torch.zeros(4, 3).double(), torch.zeros(4, 3).double()), "float64"),
        ((torch.zeros(4, 3), torch.zeros(4, 3).bfloat16()), "float32 and torch.bfloat16"),
        ((torch.zeros(4, 3), torch.zeros(4, 3), torch.zeros(3).double()), "state must be float32"),
        ((torch.zeros(1, 4, 3), torch.zeros(2, 4, 3)), "same shape"),
    ],
)
def test_what_it_cannot_take_is_refused_with_a_reason(inputs: tuple[Tensor, ...], says: str):
    with kernels("triton"), pytest.raises(ValueError, match=rf"cannot run diagonal_scan: .*{says}"):
        diagonal_scan(*inputs)
