"""Cells that may share a process, the sizes of groups, and the cells that run alone."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import nn

from tests.training.tiny import tiny
from zoo.config.cell import Cell
from zoo.launch.grouping import Group, groups
from zoo.launch.process_pool import Pool
from zoo.model import build_model
from zoo.training.population.stack import Stack, Unstackable


def sizes(cells: list[Cell], workers: int = 1) -> list[int]:
    return [len(group.cells) for group in groups(cells, workers)]


def grid(count: int, **changes: Any) -> list[Cell]:
    return [tiny(lr=1e-3 * (i + 1), seed=i % 2, **changes) for i in range(count)]


def test_population_1_runs_every_cell_alone_in_order():
    cells = [tiny(lr=1e-3), tiny(d_model=32), tiny(lr=2e-3)]
    assert [group.cells for group in groups(cells, 1)] == [(cell,) for cell in cells]


def test_a_number_is_the_size_and_the_rest_of_a_sweep_keeps_its_groups():
    cells = grid(10, population=4)
    before = [group.cells for group in groups(cells, 1)]
    assert [len(group) for group in before] == [4, 4, 2]
    for i in range(3):
        left = [*before[:i], *before[i + 1 :]]
        assert [group.cells for group in groups([c for group in left for c in group], 1)] == left


def test_auto_leaves_no_worker_without_a_group():
    assert sizes(grid(6, population="auto"), workers=2) == [3, 3]
    assert sizes(grid(20, population="auto")) == [10, 10]
    assert sizes(grid(17, population="auto")) == [9, 8]


@pytest.mark.parametrize(
    "changes",
    [
        {"d_model": 32},
        {"optim__max_epochs": 3},
        {"optim__grad_clip": 0.5},
        {"trainer__precision": "64-true"},
        {"task__vocab_size": 32},
    ],
    ids=str,
)
def test_cells_that_differ_in_other_settings_do_not_share(changes: dict[str, Any]):
    assert sizes([tiny(population=4), tiny(population=4, **changes)]) == [1, 1]


def test_learning_rate_weight_decay_and_seed_share():
    varied = [{"lr": 0.5}, {"optim__weight_decay": 0.7}, {"seed": 5}, {"task__seed": 8}]
    assert sizes([tiny(population=8, **changes) for changes in varied]) == [4]


def test_where_the_order_of_segments_is_drawn_only_equal_data_shares():
    shuffled = {"population": 4, "task__order": "shuffled"}
    assert sizes([tiny(**shuffled), tiny(**shuffled, lr=0.5), tiny(**shuffled, seed=1)]) == [2, 1]


def test_a_cell_with_a_logger_runs_alone():
    assert sizes([tiny(population=4, logger="tensorboard", lr=lr) for lr in (1e-3, 1e-2)]) == [1, 1]


def test_a_setting_of_a_module_that_differs_is_refused_with_its_name():
    models = [build_model(tiny(seed=seed)) for seed in (0, 1)]
    nn.Module.__setattr__(models[1].mixers[0], "drawn", torch.arange(3))
    nn.Module.__setattr__(models[0].mixers[0], "drawn", torch.arange(3) + 1)
    with pytest.raises(Unstackable, match=r"blocks\.0\.mixer\.drawn differs between its members"):
        Stack(models)


def test_a_population_whose_process_dies_is_tried_once_more_and_then_each_cell_alone(tmp_path: Path):
    pool = Pool(None, 1, Mock())
    group = Group(tuple(grid(3, results=str(tmp_path))))
    assert pool._group_ended(group, -signal.SIGKILL, None) == []
    again = pool.waiting.pop()
    assert again.cells == group.cells and again.among == group.whole and pool.waiting == []
    assert pool._group_ended(again, -signal.SIGKILL, None) == []
    assert [one.cells for one in pool.waiting[::-1]] == [(cell,) for cell in group.cells]
    assert all(one.alone and "killed by SIGKILL" in one.why_alone for one in pool.waiting)


def test_started_cells_resume_in_their_groups(tmp_path: Path):
    cells = grid(4, results=str(tmp_path), population=3)
    together = [cells[i].run_id for i in (2, 0)]
    for member, i in enumerate((2, 0)):
        others = [run_id for run_id in together if run_id != cells[i].run_id]
        note(cells[i], {"size": 2, "member": member, "with": others})
    note(cells[1], {})
    (cells[1].folder / "last.ckpt").touch()
    assert [(group.cells, group.among, group.why_alone) for group in groups(cells, 1)] == [
        ((cells[1],), (), "it was begun alone"),
        ((cells[2], cells[0]), tuple(together), ""),
        ((cells[3],), (), ""),
    ]
    assert [group.whole for group in groups([cells[0]], 1)] == [tuple(together)]
    alone = [replace(cell, config=cell.config | {"population": 1}) for cell in cells]
    assert [group.cells for group in groups(alone, 1)] == [(cell,) for cell in alone]


def note(cell: Cell, population: dict[str, Any]) -> None:
    cell.folder.mkdir(parents=True)
    (cell.folder / "env.json").write_text(json.dumps({"population": population}))


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"population": 5}',
        '{"population": {"size": 2}}',
        '{"population": {"with": [7], "member": 0}}',
        "[" * 9999,
        None,  # a pipe
    ],
)
def test_a_damaged_note_of_a_population_is_ignored(text: str | None, cwd: Path):
    cells = grid(2, population=2)
    cells[0].folder.mkdir(parents=True)
    path = cells[0].folder / "env.json"
    path.write_text(text) if text else os.mkfifo(path)
    assert [group.cells for group in groups(cells, 1)] == [tuple(cells)]
