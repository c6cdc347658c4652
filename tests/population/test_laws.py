"""A member of a population ends where it would have ended alone: weights, optimizer, metrics and record.

No mixer is named: a new conf/mixer/*.yaml is tested on arrival.
"""

import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.population.together import alone_and_together, assert_same_ends
from tests.registry import CONF, cases
from tests.training.tiny import segment, tiny
from zoo.config.cell import Cell
from zoo.training import train_state

pytestmark = pytest.mark.xdist_group("every mixer composed")  # with one composer


@pytest.fixture(autouse=True)
def _nothing_runs_member_by_member() -> Iterator[None]:
    """Turn off vmap's fallback for operations without a rule: right but slow, with a mere warning."""
    switch = torch._C._functorch._set_vmap_fallback_enabled  # pyright: ignore
    switch(False)
    yield
    switch(True)


NAMES = sorted({case.name for case in cases() if case.folder == CONF})


def members(size: int = 3, **changes: Any) -> list[Cell]:
    """Return up to three cells that differ in all that a population allows."""
    first = tiny(**SHORT | changes)
    varied = ((0, 3e-3, 0.1), (1, 1e-3, 0.5), (2, 1e-2, 0.0))[:size]
    return [_with(first, seed, lr, decay) for seed, lr, decay in varied]


def _with(cell: Cell, seed: int, lr: float, weight_decay: float) -> Cell:
    """Change a composed cell: composing it again takes longer than to train it."""
    config = copy.deepcopy(cell.config) | {"seed": seed, "lr": lr}
    config["task"]["seed"], config["optim"]["weight_decay"] = seed, weight_decay
    return replace(cell, config=config)


SHORT = {
    "trainer__precision": "64-true",
    "optim__max_epochs": 1,
    "task__train": f"[{segment(8, 2, 8)}, {segment(12, 3, 4)}]",
    "task__valid": f"[{segment(12, 3, 5)}]",
    "task__test": f"[{segment(8, 2, 5)}]",
}


@pytest.mark.parametrize("name", NAMES)
def test_every_mixer_ends_where_it_would_alone(name: str, tmp_path: Path):
    assert_same_ends(*alone_and_together(members(2, mixer=name), tmp_path, skip=1))


@pytest.mark.parametrize(
    "changes",
    [
        # draws for the embedding and for weights
        {"block": "zoology", "mixer": "attention", "mixer__dropout": 0.3},
        {"optim": "zoology", "optim__batch_size": 4, "optim__max_epochs": 2, "optim__early_stop": None},
        {"task__data": "fixed", "optim__grad_clip": 0.01, "optim__max_epochs": 2},
        {"model__tie_embedding": False, "model__learned_positions": 16},
    ],
    ids=str,
)
def test_every_way_of_training_ends_where_it_would_alone(changes: dict[str, Any], tmp_path: Path):
    assert_same_ends(*alone_and_together(members(3, **changes), tmp_path))


def test_members_that_share_their_data(tmp_path: Path):
    rates = (1e-3, 1e-2, 3e-3)
    cells = [tiny(trainer__precision="64-true", lr=lr, block="zoology") for lr in rates]
    assert_same_ends(*alone_and_together(cells, tmp_path))


WILD = {"optim__grad_clip": None, "optim__warmup": 0.0, "trainer__precision": "64-true"}


@pytest.mark.parametrize("look_every", [1, 4])
def test_a_member_that_diverges_leaves_its_neighbours_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look_every: int
):
    """look_every: on a GPU it trains on for some steps before the divergence is noticed."""
    monkeypatch.setattr("zoo.training.runs.LOOK_EVERY", {"cpu": look_every})
    cells = [tiny(**WILD, seed=seed, lr=lr) for seed, lr in ((0, 1e-2), (1, 1e300), (2, 3e-3))]
    alone, together = alone_and_together(cells, tmp_path)
    assert [outcome["status"] for outcome in together.outcomes] == ["ok", "diverged", "ok"]
    assert_same_ends(alone, together)


def test_all_members_may_diverge(tmp_path: Path):
    cells = [tiny(**WILD, lr=lr) for lr in (1e300, 1e302)]
    alone, together = alone_and_together(cells, tmp_path)
    assert {outcome["status"] for outcome in together.outcomes} == {"diverged"}
    assert_same_ends(alone, together)


def test_a_member_that_stops_early_leaves_its_neighbours_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """One member stops at 7 steps, by the rows that its seed happens to get right; others never do."""
    monkeypatch.setattr(train_state, "pooled_row_accuracy", lambda x: _loss(x) * (_loss(x) < 3.16))
    common = {"trainer__precision": "64-true", "optim__early_stop": 0.99, "optim__max_epochs": 3}
    cells = [tiny(**common, seed=s, lr=lr) for s, lr in ((0, 1e-3), (1, 3e-2), (2, 1e-5), (0, 1e-1))]
    alone, together = alone_and_together(cells, tmp_path)
    steps = [outcome["steps"] for outcome in together.outcomes]
    assert len(set(steps)) > 1 and any(outcome["early_stopped"] for outcome in together.outcomes)
    assert_same_ends(alone, together)


def _loss(scores: Any) -> float:
    return next(iter(scores.values())).loss


def test_members_in_float32_agree_to_its_precision(tmp_path: Path):
    alone, together = alone_and_together(members(trainer__precision="32-true"), tmp_path)
    assert_same_ends(alone, together, tolerance=1e-4)
    weights = torch.load(together.folders[0] / "last.ckpt", weights_only=True)["model"]
    assert weights["embedding"].dtype == torch.float32
