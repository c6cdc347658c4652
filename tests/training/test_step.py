"""Recorded and eager steps give the same cell: weights, metrics and checkpoints, to the last bit."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.population.together import fresh
from tests.training.test_resuming import DRAWING, cut_off
from tests.training.tiny import STEPS, Called, assert_same, checkpoint, segment, tiny
from zoo.config.cell import Cell
from zoo.config.settings import OptimConfig
from zoo.mixers.cases import Case
from zoo.results.record import Outcome
from zoo.training import cuda_graphs
from zoo.training.cuda_graphs import message_of
from zoo.training.lr_schedule import lr_factor
from zoo.training.step import Stepper, uncompilable
from zoo.training.train import train


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> type[Called]:
    """Record steps on the CPU."""

    class Counted(Called):
        recorded = replayed = 0  # not those of Called, which others count

    monkeypatch.setattr(cuda_graphs, "RECORDERS", {"cpu": Counted})
    return Counted


def eagerly(cell: Cell, folder: Path) -> Outcome:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda_graphs, "RECORDERS", {})
        outcome = train(cell, fresh(folder))
    assert outcome["step_form"] == "eager"
    return outcome


SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "a short last batch": {"task__data": "fixed", "task__order": "shuffled", "optim__warmup": 0.3},
    "bf16-mixed": {"trainer__precision": "bf16-mixed", "optim__grad_clip": None},
    "bf16-head": {"trainer__precision": "bf16-head"},
    "float64": {"trainer__precision": "64-true"},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_recorded_cell_is_the_eager_one(tmp_path: Path, recorder: type[Called], name: str):
    cell, eager, recorded = tiny(**SETTINGS[name]), tmp_path / "eager", tmp_path / "recorded"
    eagerly(cell, eager)
    outcome = train(cell, fresh(recorded))
    assert outcome["step_form"] == "graph"
    assert recorder.recorded == (3 if name == "a short last batch" else 2) and recorder.replayed == STEPS
    assert_same(eager, recorded)
    rate = cell.config["lr"] * lr_factor(OptimConfig(**cell.config["optim"]), STEPS - 1, STEPS)
    assert {group["lr"] for group in checkpoint(recorded)["optimizer"]["param_groups"]} == {rate}


def test_a_recorded_cell_resumes(tmp_path: Path, recorder: type[Called], monkeypatch: pytest.MonkeyPatch):
    cell, eager = tiny(), tmp_path / "eager"
    eagerly(cell, eager)
    for where in (1, 5, 11):
        folder = fresh(tmp_path / str(where))
        cut_off(cell, folder, where)
        if where == 11:
            monkeypatch.setattr(cuda_graphs, "RECORDERS", {})
        assert train(cell, folder)["step_form"] == ("eager" if where == 11 else "graph")
        assert_same(eager, folder)


def test_a_divergence_is_noticed_at_its_step(tmp_path: Path, recorder: type[Called]):
    cell = tiny(lr=1e38, optim__grad_clip=None, optim__warmup=0.0)
    eager, recorded = eagerly(cell, tmp_path / "eager"), train(cell, fresh(tmp_path / "recorded"))
    assert recorded["status"] == eager["status"] == "diverged"
    assert recorded["diverged_step"] == eager["diverged_step"] == 2
    one, other = ((tmp_path / name / "metrics.csv").read_bytes() for name in ("eager", "recorded"))
    assert one == other


@pytest.mark.parametrize("case", [*DRAWING[:1], None], ids=str)
def test_an_unrecordable_step_is_eager(tmp_path: Path, recorder: type[Called], case: Case | None):
    """Neither dropout nor a module that counts its passes in Python can be recorded."""
    changes = {f"mixer__{k}": str(v).replace("'", "") for k, v in case.changes.items()} if case else {}
    cell = tiny(mixer=case.name, **changes) if case else tiny(block__embed_dropout=0.2)
    reason = "counts its steps outside of tensors" if case else "draws random numbers"
    eagerly(cell, tmp_path / "eager")
    form = train(cell, fresh(tmp_path / "auto"))["step_form"]
    assert form is not None and form.startswith("eager (") and reason in form
    assert recorder.recorded == recorder.replayed == 0
    assert_same(tmp_path / "eager", tmp_path / "auto")


def test_a_finished_cell_keeps_the_form_of_its_steps(tmp_path: Path, recorder: type[Called]):
    train(tiny(), tmp_path)
    assert train(tiny(trainer__step="eager"), tmp_path)["step_form"] == "graph"


def stepper(form: str, monkeypatch: pytest.MonkeyPatch) -> Stepper:
    monkeypatch.setattr(cuda_graphs, "RECORDERS", {"cpu": Called})
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    return Stepper(form, model, optimizer, lambda x: model(x).square().mean(), 1.0)


def test_a_required_graph_that_cannot_be_recorded_is_an_error(monkeypatch: pytest.MonkeyPatch):
    step = stepper("graph", monkeypatch)
    step._loss = lambda x: step.model(x).mean() * torch.rand(())
    with pytest.raises(ValueError, match=r"trainer\.step \(=graph\) cannot record this step: a step draws"):
        step((torch.ones(2, 3),), 0.1)


def test_losses_outlive_the_next_replay(monkeypatch: pytest.MonkeyPatch):
    step = stepper("auto", monkeypatch)
    first = step((torch.ones(2, 3),), 0.1)
    value = first.item()
    step((torch.zeros(2, 3),), 0.1)
    assert first.item() == value


def test_autocast_does_not_reuse_the_weights_of_an_earlier_step(monkeypatch: pytest.MonkeyPatch):
    """Autocast caches rounded weights until it ends, here over two steps."""
    auto, eager = stepper("auto", monkeypatch), stepper("eager", monkeypatch)
    with torch.autocast("cpu", torch.bfloat16):
        losses = [auto((torch.ones(2, 3),), 0.1) for _ in range(2)]
    for loss in losses:
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(loss, eager((torch.ones(2, 3),), 0.1))


def test_the_backward_pass_is_outside_of_autocast(monkeypatch: pytest.MonkeyPatch):
    enabled: list[bool] = []
    step = stepper("eager", monkeypatch)
    weight = step.model.get_parameter("weight")
    weight.register_hook(lambda grad: enabled.append(torch.is_autocast_enabled("cpu")))
    with torch.autocast("cpu", torch.bfloat16):
        step((torch.ones(2, 3),), 0.1)
    assert enabled == [False]


def test_a_reason_names_its_place():
    try:
        torch.ones(2).view(3)
    except RuntimeError as error:
        line = message_of(error)
        assert line.startswith("shape '[3]' is invalid") and "(test_step.py:" in line


def test_without_a_compiler_the_fix_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "no-such-compiler is not here" in (uncompilable() or "")
    with pytest.raises(ValueError, match=r"trainer\.step \(=compile\) needs a C\+\+ compiler"):
        train(tiny(trainer__step="compile"), tmp_path)


@pytest.mark.slow
def test_a_compiled_cell_is_near_the_eager_one(tmp_path: Path):
    """All batches have one shape, since each takes minutes to compile on a busy machine."""
    if uncompilable():
        pytest.skip("no C++ compiler")
    one = {"task__train": f"[{segment(8, 2, 16)}]", "optim__max_epochs": 1}
    eagerly(tiny(**one), tmp_path / "eager")
    outcome = train(tiny(trainer__step="compile", **one), fresh(tmp_path / "compiled"))
    assert outcome["step_form"] == "compile" and outcome["steps"] == 4
    eager, compiled = (checkpoint(tmp_path / name)["model"] for name in ("eager", "compiled"))
    torch.testing.assert_close(compiled, eager, rtol=1e-3, atol=1e-4)
