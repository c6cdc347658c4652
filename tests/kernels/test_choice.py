"""kernels=: what is asked for runs, what ran is noted, and what cannot be had says why."""

from pathlib import Path

import pytest
import torch

from tests.training.tiny import tiny
from zoo.kernels.choice import Op, kernels, lacking, ops
from zoo.training import train


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


def test_a_cell_s_record_names_what_ran_and_its_name_does_not(tmp_path: Path):
    """Kernels are execution, like threads: the cell stays the same, and so does what it learns."""
    cells = [tiny(mixer="sliding_window", kernels=asked) for asked in ("auto", "reference")]
    assert len({cell.run_id for cell in cells}) == len({cell.point for cell in cells}) == 1
    outcomes = []
    for cell in cells:
        (folder := tmp_path / cell.config["kernels"]).mkdir()
        outcomes.append(train(cell, folder))
    auto, reference = outcomes
    assert auto.kernels == {"attention": "sdpa", "linear_cross_entropy": "chunked"}
    assert reference.kernels == {"attention": "reference", "linear_cross_entropy": "reference"}
    for name, score in auto.scores["test"].items():
        assert score.loss == pytest.approx(reference.scores["test"][name].loss, rel=1e-3)


@pytest.mark.parametrize("asked", ["triton", "package"])
def test_what_a_machine_lacks_is_said_before_any_step(asked: str, tmp_path: Path):
    with pytest.raises(ValueError, match=rf"kernels \(={asked}\) needs trainer.accelerator=gpu"):
        train(tiny(kernels=asked), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a CUDA device")
def test_a_device_that_is_missing_is_named():
    assert lacking("auto") is lacking("reference") is None
    assert "no CUDA device" in (lacking("triton") or "")


def test_every_op_has_a_reference():
    found = ops()
    assert len({op.name for op in found}) == len(found) >= 15
    assert all("reference" in op.forms for op in found)
