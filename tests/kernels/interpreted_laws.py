"""Run by test_interpreted.py: every mixer that an op with a Triton form serves keeps its laws through it.

Beyond the outputs, one of the mixers that call the same ops will do; the others with -m slow.  So are
stacked members, whom each op's own tests have as well.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kernels import laws
from tests.population.together import fresh, trained_together
from tests.registry import compose
from zoo.launch.preflight import Validator
from zoo.mixers.cases import Case

LENGTH = 18
CASES = [case for case in laws.served() if not case.changes]  # the variants: on a card
FIRST = list({laws.ops_of(case): case for case in reversed(CASES)}.values())
QUICK = {  # law -> cases that run without -m slow
    laws.parts_make_the_whole: CASES,
    laws.gradients_are_those_of_the_definition: FIRST,
    laws.the_past_stands_still: FIRST,
}
EACH = [
    pytest.param(law, case, marks=() if case in QUICK.get(law, ()) else pytest.mark.slow)
    for law in laws.LAWS
    for case in CASES
]


@pytest.mark.parametrize(("law", "case"), EACH, ids=lambda x: getattr(x, "__name__", str(x)))
def test_a_mixer_keeps_its_laws_through_triton(law: Callable[[Case, str, int], None], case: Case):
    law(case, "cpu", LENGTH)


def test_a_population_trains_through_them(tmp_path: Path):
    short = "[{seq_len: 16, num_examples: 4, num_kv_pairs: 2}]"
    words = ["mixer=based", "experiment=smoke", "optim.batch_size=4", "d_model=16", "kernels=triton"]
    words += ["population=2", *(f"task.{split}={short}" for split in ("train", "valid", "test"))]
    cells = [compose([*words, f"lr={lr}"]) for lr in (0.001, 0.01)]
    assert [Validator().problems(cell) for cell in cells] == [[], []]
    outcomes = trained_together(cells, [fresh(tmp_path / cell.run_id) for cell in cells])
    expected = {"linear_cross_entropy": "chunked", "taylor_attention": "triton"}
    assert [outcome["kernels"].items() >= expected.items() for outcome in outcomes] == [True, True]
