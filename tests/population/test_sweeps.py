"""Populations as `zoo.run` runs them: records, resumption, and cells that go on alone."""

import json
import os
import pkgutil
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.command import DONE
from tests.population.together import MEASURED, Left, assert_same_ends, trained_alone, trained_together
from tests.training.tiny import tiny
from zoo.config.cell import Cell
from zoo.launch.grouping import Apart, Group, Together, groups, left
from zoo.launch.run_population import run_population
from zoo.results import lease, store
from zoo.results.outcome import Progress
from zoo.training import runs


class Stop(BaseException):
    """End the work anywhere, as a kill would: nothing catches it."""


@pytest.fixture(autouse=True)
def _every_step_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "REPORT_EVERY", 0.0)


def cells(place: Path, **changes: Any) -> list[Cell]:
    common = {"trainer__precision": "64-true", "results": str(place), "population": 3} | changes
    return [tiny(**common, lr=lr, seed=seed) for lr, seed in ((1e-3, 0), (3e-3, 0), (1e-2, 1))]


def stop_at(member: int, step: int) -> Callable[[Any], None]:
    def progress(event: tuple[int, Progress] | Together) -> None:
        if isinstance(event, tuple) and (event[0], event[1].step) == (member, step):
            raise Stop

    return progress


def quiet(event: Any) -> None:
    del event


def test_each_member_has_a_record_that_names_its_population(tmp_path: Path):
    group = cells(tmp_path / "results")
    assert run_population(Group(tuple(group)), quiet) is None
    for i, cell in enumerate(group):
        record = store.read(cell.folder)
        population = record["population"]
        assert (population["size"], population["member"]) == (3, i)
        assert population["with"] == [other.run_id for other in group if other is not cell]
        assert record["run_id"] == cell.run_id and record["status"] == "ok"
        assert {path.name for path in cell.folder.iterdir()} == DONE
        assert json.loads((cell.folder / "env.json").read_text())["population"]["member"] == i
    shares = sum(store.read(cell.folder)["wall_seconds"] for cell in group)
    whole = max(store.read(cell.folder)["population"]["wall_seconds"] for cell in group)
    assert shares <= 1.1 * whole, "the members' shares of the time are more than there was"


def test_a_population_that_is_cut_off_goes_on_and_ends_as_its_members_would_alone(tmp_path: Path):
    group = cells(tmp_path / "results")
    with pytest.raises(Stop):
        run_population(Group(tuple(group)), stop_at(2, 8))
    assert not any(store.is_done(cell.folder) or lease.holder(cell.folder) for cell in group)
    steps = [torch.load(c.folder / "last.ckpt", weights_only=True)["position"]["step"] for c in group]
    assert steps == [7, 7, 7]
    folders = [cell.folder for cell in group]
    assert_same_ends(trained_alone(group, tmp_path), Left(trained_together(group, folders), folders))


def run(cells: list[Cell]) -> None:
    """Run the cells that are not done, as a Pool of one process does."""
    waiting = [*groups([cell for cell in cells if not store.is_done(cell.folder)], 1)]
    while waiting:
        group = waiting.pop(0)
        apart = None if group.alone else run_population(group, quiet)
        assert not group.alone, group.why_alone
        waiting = (left(group, apart) if apart else []) + waiting


def in_the_middle_of(function: str, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop at call number `at` of the function, which otherwise works as it is."""
    whole, calls = pkgutil.resolve_name(function), count(1)

    def stopping(*given: Any) -> Any:
        if next(calls) == at:
            raise Stop
        return whole(*given)

    monkeypatch.setattr(function, stopping)


MOMENTS = {
    "before any checkpoint": ("zoo.training.checkpoint.save", 1),
    "one is ahead": ("zoo.training.checkpoint.save", 5),
    "two are ahead": ("zoo.training.checkpoint.save", 9),
    "nobody has begun but one": ("zoo.results.store.begin", 2),
    "one has a record": ("zoo.results.store.finish", 2),
}


@pytest.mark.parametrize("mixer", ["mamba2", "se_attn"])
def test_a_population_cut_off_at_any_moment_ends_with_the_same_bytes(
    mixer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The last bits of a member depend, in float32, on how many train as one."""
    common = {"mixer": mixer, "trainer__precision": "32-true", "optim__max_epochs": 1}
    run(undisturbed := cells(tmp_path / "undisturbed", **common))
    for moment, (function, at) in MOMENTS.items():
        disturbed = cells(tmp_path / moment, **common)
        with monkeypatch.context() as patch, pytest.raises(Stop):
            in_the_middle_of(function, at, patch)
            run(disturbed)
        assert not all(store.is_done(cell.folder) for cell in disturbed), moment
        run(disturbed)
        for cell, other in zip(disturbed, undisturbed, strict=True):
            mine, theirs = ((c.folder / "metrics.csv").read_bytes() for c in (cell, other))
            assert mine == theirs, moment


def test_members_at_different_steps_are_parted_and_lose_nothing(tmp_path: Path):
    group = cells(tmp_path / "results")
    with pytest.raises(Stop):
        run_population(Group(tuple(group)), stop_at(2, 8))
    os.unlink(group[1].folder / "last.ckpt")
    apart = run_population(Group(tuple(group)), quiet)
    assert isinstance(apart, Apart) and apart.parts == ((0, 2), (1,)) and "another step" in apart.why
    assert run_population(Group((group[0], group[2])), quiet) is None


def test_cells_that_are_done_or_claimed_are_left_out(tmp_path: Path):
    group = cells(tmp_path / "results")
    for cell in group:
        cell.folder.mkdir(parents=True)
    with lease.held(group[1].folder):
        store.finish(group[0].folder, {"run_id": group[0].run_id})
        apart = run_population(Group(tuple(group)), quiet)
    assert apart is not None and apart.parts == ((2,), (1,))
    assert not store.is_done(group[2].folder)


def test_a_model_that_torch_cannot_lift_is_parted_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from zoo.model import SequenceModel

    forward = SequenceModel.forward

    def unliftable(self: SequenceModel, inputs: torch.Tensor, *rest: Any) -> torch.Tensor:
        hidden = forward(self, inputs, *rest)
        return hidden * float(hidden.sum() > -1e9)  # a branch on the data

    monkeypatch.setattr(SequenceModel, "forward", unliftable)
    apart = run_population(Group(tuple(cells(tmp_path))), quiet)
    assert apart is not None and len(apart.parts) == 3 and "torch.func cannot lift it" in apart.why


def test_a_stack_that_computes_something_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from zoo.training.population.stack import Stack

    whole = Stack.map
    monkeypatch.setattr(Stack, "map", lambda self, function, batch: whole(self, function, batch) * 1.001)
    apart = run_population(Group(tuple(cells(tmp_path))), quiet)
    assert apart is not None and "stacked its loss is" in apart.why


def test_auto_measures_and_reports_its_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    group = Group(tuple(cells(tmp_path, population="auto")))
    monkeypatch.setattr("zoo.training.population.trial.GAIN", 0.0)
    apart = run_population(group, quiet)
    assert apart is not None and apart.ruling and "ms" in apart.why
    monkeypatch.setattr("zoo.training.population.trial.GAIN", 1e9)
    events: list[Any] = []
    assert run_population(group, events.append) is None
    assert isinstance(events[0], Together)


def test_a_signal_saves_every_member_at_that_very_step(tmp_path: Path):
    def signal_at(step: int, message: str, number: int) -> Callable[[Any], None]:
        here = (0, step, message)
        return lambda event: (
            here == (event[0], event[1].step, event[1].message) and os.kill(os.getpid(), number)
        )

    def group_at(name: str) -> list[Cell]:
        return cells(tmp_path / name, trainer__checkpoint_every=100)

    left_alone = group_at("undisturbed")
    assert run_population(Group(tuple(left_alone)), quiet) is None
    places = [(4, "training", signal.SIGTERM), (7, "validating", signal.SIGINT)]
    for step, message, number in [*places, (14, "testing", signal.SIGTERM)]:
        group = group_at(message)
        with pytest.raises(KeyboardInterrupt):
            run_population(Group(tuple(group)), signal_at(step, message, number))
        saved = [torch.load(cell.folder / "last.ckpt", weights_only=True) for cell in group]
        assert [ckpt["position"]["step"] for ckpt in saved] == [step] * 3
        assert run_population(Group(tuple(group)), quiet) is None
        for mine, theirs in zip(group, left_alone, strict=True):
            assert (mine.folder / "metrics.csv").read_bytes() == (theirs.folder / "metrics.csv").read_bytes()
            ended, undisturbed = store.read(mine.folder), store.read(theirs.folder)
            differ = {key for key in ended if ended[key] != undisturbed[key]}
            assert differ <= {*MEASURED, "population", "overrides"}
