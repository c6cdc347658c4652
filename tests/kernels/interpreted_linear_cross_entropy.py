"""Run by test_interpreted.py: the head's loss in Triton's interpreter, in float32, against float64."""

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.kernels.agreement import as_near_as_torch, gradients_inside_vmap, members_as_alone
from zoo.kernels.choice import kernels
from zoo.kernels.linear_cross_entropy import linear_cross_entropy, linear_cross_entropy_reference, triton
from zoo.kernels.linear_cross_entropy.triton import linear_cross_entropy_triton, unfit

SIZES = [(1, 3, 2), (70, 130, 20), (64, 64, 16), (33, 600, 33), (5, 70, 130)]  # N, V, D


def problem(rows: int, words: int, width: int) -> list[Tensor]:
    rng = torch.Generator().manual_seed(rows + words)
    x, weight = (torch.randn(n, width, generator=rng).requires_grad_() for n in (rows, words))
    return [x, weight, torch.randint(words, (rows,), generator=rng)]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_loss_and_gradients(size: tuple[int, int, int]):
    as_near_as_torch(linear_cross_entropy_triton, linear_cross_entropy_reference, problem(*size))


@pytest.mark.parametrize(("programs", "fewest"), [(1, 1), (10**6, 1), (10**6, 3)])
def test_it_does_not_matter_to_how_many_programs_the_rows_are_dealt(
    monkeypatch: pytest.MonkeyPatch, programs: int, fewest: int
):
    monkeypatch.setattr(triton, "PROGRAMS", programs)
    monkeypatch.setattr(triton, "FEWEST", fewest)
    as_near_as_torch(linear_cross_entropy_triton, linear_cross_entropy_reference, problem(70, 290, 8))


def test_wide_matrices_are_cut_into_columns():
    """D 300 in float32: scores from ten blocks of columns, gradients in three."""
    as_near_as_torch(linear_cross_entropy_triton, linear_cross_entropy_reference, problem(9, 40, 300))


def test_a_hopelessly_wrong_answer_has_a_finite_loss():
    x, weight = torch.tensor([[1.0]]), torch.tensor([[500.0], [-500.0]])
    assert linear_cross_entropy_triton(x, weight, torch.tensor([1])).item() == pytest.approx(1000.0)


def test_a_loss_that_is_not_finite_stays_so():
    x, weight, target = problem(3, 5, 4)
    with np.errstate(all="ignore"):  # what the interpreter computes with
        assert not linear_cross_entropy_triton(x * torch.inf, weight, target).isfinite()
        assert linear_cross_entropy_triton(x * torch.nan, weight, target).isnan()


def test_ignored_rows_have_no_loss_no_gradient_and_no_part_in_the_mean():
    x, weight, target = problem(70, 130, 20)
    target[::3] = -100
    as_near_as_torch(linear_cross_entropy_triton, linear_cross_entropy_reference, [x, weight, target])
    (dx,) = torch.autograd.grad(linear_cross_entropy_triton(x, weight, target), x)
    assert not dx[::3].any()


def test_strides_as_they_come():
    x, weight, target = problem(40, 80, 12)
    wide = torch.stack([x.detach(), x.detach()], 1).requires_grad_()  # every other row of a matrix
    across = weight.detach().T.contiguous().T.requires_grad_()  # columns first
    for a, b in ((wide[:, 1], weight), (x, across)):
        inputs = [a.detach().requires_grad_(), b.detach().requires_grad_(), target]
        as_near_as_torch(linear_cross_entropy_triton, linear_cross_entropy_reference, inputs)


@pytest.mark.parametrize("in_dims", [(0, 0, 0), (1, None, 0), (0, 0, None)])
def test_stacked_members_get_what_they_get_alone(in_dims: tuple[int | None, ...]):
    members_as_alone(linear_cross_entropy_triton, problem(35, 40, 8), in_dims)


def test_gradients_inside_vmap():
    gradients_inside_vmap(linear_cross_entropy_triton, problem(20, 30, 4))


@pytest.mark.parametrize("only", [0, 1])
def test_one_gradient_can_be_had_without_the_other(only: int):
    inputs = problem(5, 9, 8)
    fixed = [t if i == only else t.detach() for i, t in enumerate(inputs)]
    (grad,) = torch.autograd.grad(linear_cross_entropy_triton(*fixed), inputs[only])
    (expected,) = torch.autograd.grad(linear_cross_entropy_reference(*inputs), inputs[only])
    torch.testing.assert_close(grad, expected)


def test_it_runs_when_asked():
    with kernels("triton") as choice:
        linear_cross_entropy(*problem(5, 9, 8))
    assert choice.record() == {"linear_cross_entropy": "triton"}


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ((torch.zeros(4, 513), torch.zeros(9, 513)), r"d_model \(=513\) must be at most 512"),
        ((torch.zeros(4, 3).double(), torch.zeros(9, 3).double()), "float64"),
        ((torch.zeros(4, 3), torch.zeros(9, 3).bfloat16()), "must both be float32 or bfloat16"),
    ],
)
def test_what_it_cannot_take_is_refused_with_a_reason(inputs: tuple[Tensor, Tensor], says: str):
    with kernels("triton"), pytest.raises(ValueError, match=rf"cannot run linear_cross_entropy: .*{says}"):
        linear_cross_entropy(*inputs, torch.zeros(4, dtype=torch.long))


def test_short_of_nothing_else():
    x, weight, target = problem(4, 9, 512)
    assert unfit(x, weight, target) is None
    with torch.autocast("cpu", torch.bfloat16):
        assert unfit(x, weight.bfloat16(), target) is None
