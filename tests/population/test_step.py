"""A population's step: frozen rows, no reads from the device, and recordings."""

from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.population.together import trained_together
from tests.training.tiny import STEPS, Called, checkpoint, same, tiny
from zoo.kernels.linear_cross_entropy import chunked
from zoo.tasks.base import Batch
from zoo.training.build import build
from zoo.training.population.dropout import Draws
from zoo.training.population.optimizer import PopulationAdamW
from zoo.training.population.stack import Stack
from zoo.training.population.step import PopulationStep
from zoo.training.runs import Run, stacked

READS = ("aten._local_scalar_dense.default", "aten.nonzero.default", "aten.equal.default")


class Unread(TorchDispatchMode):
    """Forbid operations that bring values to the CPU or turn them into a shape."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert str(func) not in READS, f"{func} waits for the device"
        return func(*args, **kwargs or {})


def made(tmp_path: Path, size: int = 3, **changes: Any) -> tuple[PopulationStep, list[Run]]:
    runs = [build(tiny(seed=seed, **changes), tmp_path) for seed in range(size)]
    stack = Stack([run.model for run in runs])
    return PopulationStep(stack, PopulationAdamW(stack, [run.cell.optim for run in runs])), runs


def batches(members: list[Run], steps: int) -> list[Batch]:
    items = islice(zip(*(run.batches() for run in members), strict=True), steps)
    return [stacked([batch for _, batch in item]) for item in items]


def take(step: PopulationStep, batches: list[Batch]) -> None:
    for batch in batches:
        step(batch, [0] * step.stack.size, [1e-2] * step.stack.size)


def test_a_frozen_row_stays_whatever_its_gradient(tmp_path: Path):
    step, members = made(tmp_path)
    first, *others = batches(members, 3)
    take(step, [first])
    step.optimizer.freeze(1)
    before = step.stack.weights.clone()
    step.optimizer.exp_avg[1] = float("nan")
    take(step, others)
    assert torch.equal(step.stack.weights[1], before[1])
    assert not torch.equal(step.stack.weights[0], before[0])


def test_a_step_reads_nothing_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(chunked, "IN_TURN", ())  # the head as on a GPU
    step, members = made(tmp_path)
    first, *others = batches(members, 4)
    take(step, [first])  # which parameters have a gradient is seen once
    with Unread():
        take(step, others)


def test_a_recorded_population_ends_as_one_that_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A stand-in records on buffers that each batch is copied into; a device records in the gpu tests."""
    cells = [tiny(lr=lr, seed=seed) for lr, seed in ((1e-3, 0), (1e-2, 0), (1e-3, 1))]
    eager, recorded = [[tmp_path / way / str(i) for i in range(3)] for way in ("eager", "recorded")]
    for folder in [*eager, *recorded]:
        folder.mkdir(parents=True)
    trained_together(cells, eager)
    monkeypatch.setattr(Called, "replayed", 0)
    monkeypatch.setattr("zoo.training.cuda_graphs.RECORDERS", {"cpu": Called})
    assert {outcome["step_form"] for outcome in trained_together(cells, recorded)} == {"graph"}
    assert Called.replayed == STEPS
    for mine, theirs in zip(recorded, eager, strict=True):
        assert same(checkpoint(mine), checkpoint(theirs))


@pytest.mark.parametrize(
    ("changes", "setting", "form"),
    [
        ({"block": "zoology"}, "auto", "eager (a step draws random numbers on the CPU)"),
        ({}, "compile", "eager (populations are not compiled)"),
        ({}, "eager", "eager"),
    ],
    ids=str,
)
def test_an_eager_step_has_its_reason(
    changes: dict[str, Any], setting: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("zoo.training.cuda_graphs.RECORDERS", {"cpu": Called})
    step, members = made(tmp_path, **changes)
    step = PopulationStep(step.stack, step.optimizer, setting)
    before = step.stack.weights.clone()
    take(step, batches(members, 1))
    assert step.form == form and not torch.equal(step.stack.weights, before)


def test_dropout_seeded_by_member_is_not_recorded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(RuntimeError, match="seeded within the step"):
        Draws().noise(SimpleNamespace(is_cuda=True), 0.5)  # pyright: ignore


def test_a_required_recording_that_fails_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("zoo.training.cuda_graphs.RECORDERS", {"cpu": Called})
    step, members = made(tmp_path, block="zoology")
    step = PopulationStep(step.stack, step.optimizer, "graph")
    with pytest.raises(ValueError, match="cannot record this step: a step draws random numbers"):
        take(step, batches(members, 1))
