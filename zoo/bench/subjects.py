"""From a subject and its cells to its rows."""

from argparse import Namespace
from collections.abc import Callable, Sequence

import torch

from zoo.bench.data import data
from zoo.bench.head import head
from zoo.bench.layers import decode, prefill
from zoo.bench.machine import Machine, measured
from zoo.bench.op_subjects import subjects
from zoo.bench.ops import DTYPE, op_rows
from zoo.bench.population import dtype_of as population_dtype
from zoo.bench.population import population
from zoo.bench.rows import Row
from zoo.bench.startup import startup
from zoo.bench.steps import FORMS
from zoo.bench.train import dtype_of, train
from zoo.checks import one_of
from zoo.config.cell import Cell
from zoo.instantiate import task_of
from zoo.kernels.choice import ops

ON_CPU, ELSEWHERE = ("zoo", "zoo bf16-head", "zoo bf16-mixed", "plain"), ("zoo", "zoo bf16-mixed", "plain")


def measure(what: str, cells: Sequence[Cell], asked: Namespace) -> list[Row]:
    return SUBJECTS[what](cells, asked)


def _train(cells: Sequence[Cell], asked: Namespace) -> list[Row]:
    kind, threads = _where(cells)
    forms = tuple(asked.forms.split(",")) if asked.forms else ON_CPU if kind == "cpu" else ELSEWHERE
    for form in forms:
        one_of("--forms", form, tuple(FORMS))
    machine = measured(kind, threads, tuple({dtype_of(form) for form in forms}))
    return [row for cell in cells for row in train(cell, machine, forms, forms[-1], asked.rounds)]


def _where(cells: Sequence[Cell]) -> tuple[str, int]:
    """The device and the threads that all cells ask for."""
    trainers = [cell.trainer for cell in cells]
    places = {(trainer.device, trainer.threads) for trainer in trainers}
    if len(places) > 1:
        raise ValueError(
            "one table is of one device and number of threads: give one trainer and trainer.threads."
        )
    if trainers[0].device == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            "trainer.accelerator (=gpu) needs a CUDA device, and torch sees none: use trainer=cpu."
        )
    return places.pop()


def _layers(run: Callable[..., list[Row]]) -> Callable[[Sequence[Cell], Namespace], list[Row]]:
    def rows(cells: Sequence[Cell], asked: Namespace) -> list[Row]:
        machine = measured(*_where(cells), (torch.float32, torch.bfloat16))
        lengths = _lengths(asked.seq_lens or "256,1024")
        return [row for cell in cells for n in lengths for row in run(cell, machine, n, asked.rounds)]

    return rows


def _lengths(text: str) -> list[int]:
    words = text.split(",")
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise ValueError(f"--seq-lens (={text}) must be positive integers, such as 256,1024.")
    return [int(word) for word in words]


def _ops(cells: Sequence[Cell], asked: Namespace) -> list[Row]:
    kind, threads = _where(cells[:1])
    there = [op.name for op in ops()]
    chosen = [subject for subject in subjects(small=kind == "cpu") if subject.op in there]
    names = asked.ops.split(",") if asked.ops else [subject.op for subject in chosen]
    for name in names:
        one_of("--ops", name, tuple(dict.fromkeys(subject.op for subject in chosen)))
    machine = measured(kind, threads, (DTYPE[kind],))
    rows = [op_rows(subject, machine, asked.rounds) for subject in chosen if subject.op in names]
    return [row for some in rows for row in some]


def _head(cells: Sequence[Cell], asked: Namespace) -> list[Row]:
    machine = measured(*_where(cells), (torch.float32, torch.bfloat16))
    return [
        row
        for cell in cells
        for i in range(len(task_of(cell).segments("train")))
        for row in head(cell, machine, i, asked.rounds)
    ]


def _data(cells: Sequence[Cell], asked: Namespace) -> list[Row]:
    machine = measured(*_where(cells))
    return [row for cell in cells for row in data(cell, machine, asked.rounds)]


def _population(cells: Sequence[Cell], asked: Namespace) -> list[Row]:
    trainers = [cell.trainer for cell in cells]
    machine = measured(*_where(cells), tuple({population_dtype(trainer) for trainer in trainers}))
    return [row for cell in cells for row in population(cell, machine, asked.rounds)]


def _startup(cells: Sequence[Cell], asked: Namespace) -> list[Row]:
    kind, threads = _where(cells)
    return [row for cell in cells for row in startup(cell.overrides, Machine(kind, threads), asked.rounds)]


SUBJECTS: dict[str, Callable[[Sequence[Cell], Namespace], list[Row]]] = {
    "train": _train,
    "prefill": _layers(prefill),
    "decode": _layers(decode),
    "ops": _ops,
    "data": _data,
    "head": _head,
    "population": _population,
    "startup": _startup,
}
