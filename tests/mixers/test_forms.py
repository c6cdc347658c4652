"""What runs by default is what the references compute: outputs, gradients, and second derivatives if any."""

import pytest
import torch
from torch import Tensor

from tests.mixers.built import tokens
from tests.mixers.test_mixer_numerics import built
from tests.registry import cases
from zoo.kernels.choice import kernels
from zoo.mixers.cases import WIDTH, Case

ONCE = r"first derivatives only: kernels=reference|^derivative for aten::_scaled_dot.* is not implemented"


def derivatives(case: Case, kind: str) -> list[Tensor]:
    """Return the outputs and the gradient, and the second derivative unless it is refused."""
    mixer = built(case).eval()
    x, w, v = (tokens(40, width=WIDTH, seed=seed).float() for seed in range(3))
    x.requires_grad_()
    with kernels(kind):
        y = mixer(x)
        [gradient] = torch.autograd.grad((y * w).tanh().sum(), x, create_graph=True)
        try:
            return [y, gradient, *torch.autograd.grad((gradient * v).sum(), x)]
        except (NotImplementedError, RuntimeError) as refused:
            with pytest.raises(type(refused), match=ONCE):
                raise
            return [y, gradient]


@pytest.mark.parametrize("case", [case for case in cases() if not case.changes], ids=str)
def test_the_default_forms_agree_with_the_references(case: Case):
    for name, got, wanted in zip(
        ("outputs", "gradient", "second derivative"),
        derivatives(case, "auto"),
        derivatives(case, "reference"),
        strict=False,
    ):
        assert (got - wanted).norm() <= 1e-3 * wanted.norm(), name
