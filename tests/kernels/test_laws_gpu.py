"""Every mixer, in every variant, keeps its laws through Triton on a card."""

from collections.abc import Callable

import pytest
import torch

from tests.kernels import laws
from zoo.mixers.cases import Case

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

LENGTH = 150
CASES = sorted(laws.served(), key=lambda case: bool(case.changes))  # the variants last: time may run out
pytestmark = [pytest.mark.gpu, pytest.mark.parametrize("case", CASES, ids=str)]


@pytest.mark.parametrize("law", laws.LAWS, ids=lambda law: law.__name__)
def test_a_mixer_keeps_its_laws_through_triton(law: Callable[[Case, str, int], None], case: Case):
    law(case, "cuda", LENGTH)
