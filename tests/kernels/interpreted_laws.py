"""Run by test_interpreted.py: every mixer that an op with a Triton form serves keeps its laws through it."""

import pytest

from tests.kernels import laws
from tests.registry import Case

LENGTH = 18
CASES = [case for case in laws.served() if not case.changes]  # the variants: on a card
pytestmark = pytest.mark.parametrize("case", CASES, ids=str)


def test_parts_make_the_whole(case: Case):
    laws.parts_make_the_whole(case, "cpu", LENGTH, [7, 16, 17])


def test_gradients_are_those_of_the_definition(case: Case):
    laws.gradients_are_those_of_the_definition(case, "cpu", LENGTH)


def test_the_past_stands_still(case: Case):
    laws.the_past_stands_still(case, "cpu", LENGTH)


def test_members_train_as_they_would_alone(case: Case):
    laws.members_train_as_they_would_alone(case, "cpu", LENGTH)
