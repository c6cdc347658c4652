"""Every mixer computes what its paper's equations say, outputs and gradients (see tests/independence.py)."""

import pytest

from tests.independence import LENGTHS, compared, file_of, package_of, statement
from tests.registry import cases
from zoo.config.paths import CONF
from zoo.mixers.cases import Case

CASES = cases(CONF)
BOTH = [
    (case, kind)
    for case in CASES
    for kind in ("definition", "package")
    if kind == "definition" or "package" in vars(statement(file_of(case)) or pytest)
]


# at a prime: that chunks are not seen, at any length, is a law of its own
@pytest.mark.parametrize("lengths", [LENGTHS[1:2], pytest.param(LENGTHS, marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize(("case", "kind"), BOTH, ids=str)
def test_outputs_and_gradients_are_the_definitions(case: Case, kind: str, lengths: tuple[int, ...]):
    module = statement(file_of(case))
    assert module, f"tests/definitions/{file_of(case)}.py must write down what {case.name} computes"
    computes, tolerance = module.definition, 1e-9
    if kind == "package":
        computes, tolerance = package_of(module), vars(module).get("PACKAGE_TOLERANCE", 1e-9)
        if computes is None:
            pytest.skip(f"{module.PACKAGE.split(':')[0]} is not installed")
    for seq_len in lengths:
        errors = compared(case, computes, seq_len)
        assert errors.outputs < tolerance, f"outputs, {seq_len} tokens"
        assert errors.gradients < tolerance, f"gradients, {seq_len} tokens"
