"""Time cells that differ only in their seeds: one at a time, and as one model (a population)."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from zoo.bench.counting import flops
from zoo.bench.machine import Machine
from zoo.bench.rows import Row, compared, timed
from zoo.config.cell import Cell
from zoo.config.settings import TrainerConfig
from zoo.model import weights_dtype
from zoo.training.build import build
from zoo.training.population.trial import Step, alone, in_turn, shares, together
from zoo.training.process import keep_freed_memory, prepare
from zoo.training.runs import Run

SIZES = {"cpu": (4, 16), "cuda": (4, 16, 64)}
ALTERNATIVE = "alone"


def population(cell: Cell, machine: Machine, rounds: int) -> list[Row]:
    """Time a member's training step, averaged over the segments by their shares of the batches.

    Every member has its own weights and its own data, which are made beforehand.  `alone` is eager.  On a GPU
    the recorded step is timed too, and populations are recorded where that is possible.
    """
    keep_freed_memory()
    with prepare(cell), tempfile.TemporaryDirectory() as place:
        trainer = cell.trainer
        members = [build(one, Path(place)) for one in _seeds(cell, max(SIZES[machine.kind]))]
        steps = _contenders(members, trainer, machine.kind)
        times = in_turn([step for _, step in steps.values()], members[0], trainer, rounds, machine.now)
        work = sum(part * flops(partial(steps["alone"][1], i)) for i, part in enumerate(shares(members[0])))
    dtype = torch.bfloat16 if trainer.precision == "bf16-mixed" else weights_dtype(trainer)
    floor = machine.products(work, dtype)
    floor = floor._replace(made_of=f"products of a member's step: {floor.made_of}")
    a_member = {
        name: [t / size for t in step] for (name, (size, _)), step in zip(steps.items(), times, strict=True)
    }
    size, count = cell.optim.batch_size, members[0].total_steps
    sizes = f"d_model={cell.d_model} task={cell.task} batch={size}; {count:,} steps a cell"
    measured = timed(a_member, 1, lambda _: floor)
    return compared("population", cell.mixer, sizes, "member-steps", measured, ALTERNATIVE, machine)


def _seeds(cell: Cell, count: int) -> list[Cell]:
    """Return `count` copies of the cell, each with its own seed for weights and data."""
    task = cell.task_settings
    return [
        replace(cell, config=cell.config | {"seed": seed, "task": task | {"seed": seed}})
        for seed in range(count)
    ]


def _contenders(members: Sequence[Run], trainer: TrainerConfig, kind: str) -> dict[str, tuple[int, Step]]:
    """Return name -> the number of members that a step trains, and the step."""
    made = {ALTERNATIVE: (1, alone(members[0], replace(trainer, step="eager")))}
    if kind != "cpu":
        made["alone, recorded"] = 1, alone(members[0], trainer)
    for size in SIZES[kind]:
        made[f"population of {size}"] = size, together(members[:size], trainer)
    return made
