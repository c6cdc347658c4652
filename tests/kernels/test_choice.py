"""kernels=: what is asked for runs, what ran is noted, and what cannot be had says why."""

import pytest
import torch

from zoo.kernels.choice import Op, kernels


def reference(x: torch.Tensor) -> str:
    return "reference"


def chunked(x: torch.Tensor) -> str:
    return "chunked"


OP = Op("toy", {"reference": reference, "chunked": chunked})
X = torch.zeros(1)


def test_outside_of_any_choice_the_usual_form_runs():
    assert OP.run("chunked", X) == "chunked"


@pytest.mark.parametrize(
    ("asked", "runs"),
    [("auto", "chunked"), ("reference", "reference"), ("triton", "chunked"), ("package", "chunked")],
)
def test_what_is_asked_for_runs_and_is_noted(asked: str, runs: str):
    with kernels(asked) as choice:
        assert OP.run("chunked", X) == runs
    assert choice.record() == {"toy": runs}


def test_a_choice_ends_with_its_context_and_notes_only_its_own_calls():
    with kernels("reference") as outer:
        with kernels("auto") as inner:
            OP.run("chunked", X)
        assert OP.run("chunked", X) == "reference"
    OP.run("chunked", X)
    assert (inner.record(), outer.record()) == ({"toy": "chunked"}, {"toy": "reference"})


def test_several_implementations_of_one_op_are_all_noted():
    with kernels("auto") as choice:
        OP.run("reference", X)
        OP.run("chunked", X)
    assert choice.record() == {"toy": "chunked+reference"}


def test_an_unknown_word_is_refused():
    says = r"kernels \(='fast'\) must be one of auto, reference, triton, package"
    with pytest.raises(ValueError, match=says), kernels("fast"):
        pass
