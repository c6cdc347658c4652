"""On a card: every mixer, in every variant, keeps its laws through Triton."""

import pytest
import torch

from tests.kernels import laws
from zoo.mixers.cases import Case

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

LENGTH = 150
CASES = sorted(laws.served(), key=lambda case: bool(case.changes))  # the variants last: time may run out
pytestmark = [pytest.mark.gpu, pytest.mark.parametrize("case", CASES, ids=str)]


def test_parts_make_the_whole(case: Case):
    laws.parts_make_the_whole(case, "cuda", LENGTH, [1, 33, 130, 149])


def test_gradients_are_those_of_the_definition(case: Case):
    laws.gradients_are_those_of_the_definition(case, "cuda", LENGTH)


def test_the_past_stands_still(case: Case):
    laws.the_past_stands_still(case, "cuda", LENGTH)


def test_members_train_as_they_would_alone(case: Case):
    laws.members_train_as_they_would_alone(case, "cuda", LENGTH)
