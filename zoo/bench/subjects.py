"""The subjects of `zoo.bench`: each turns cells and options into the rows of its table."""

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch

from zoo.bench.data import data
from zoo.bench.layers import BATCH, decode, prefill
from zoo.bench.machine import Machine
from zoo.bench.ops import op_rows
from zoo.bench.population import population
from zoo.bench.rows import Row
from zoo.bench.steps import form_of
from zoo.bench.train import train
from zoo.common.checks import one_line, one_of
from zoo.config.cell import Cell
from zoo.kernels.cases import cases
from zoo.kernels.choice import ops
from zoo.training.process import NO_CUDA

LEAST_HELD = 4  # tensors as large as a layer's input that a layer holds at once: input, q, k and v
Rows = Iterator[list[Row]]  # of one cell, or of one op
ON_CPU, ELSEWHERE = ("zoo", "zoo bf16-head", "zoo bf16-mixed", "plain"), ("zoo", "zoo bf16-mixed", "plain")


def measure(what: str, cells: Sequence[Cell], options: Namespace) -> Rows:
    """Measure the subject for each cell, and yield the rows of one cell, or op, after another.

    ValueError: the options or the cells do not allow the measurement.
    """
    kind, threads = _where(cells)
    torch.set_num_threads(threads)
    yield from SUBJECTS[what](cells, Machine(kind, threads), options)


def _where(cells: Sequence[Cell]) -> tuple[str, int]:
    """Return the device and the threads of all cells."""
    places = {(cell.trainer.device, cell.trainer.threads) for cell in cells}
    if len(places) > 1:
        raise ValueError(
            "one table is of one device and number of threads: give one trainer and trainer.threads."
        )
    [(kind, threads)] = places
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError(NO_CUDA)
    return kind, threads


def _train(cells: Sequence[Cell], machine: Machine, options: Namespace) -> Rows:
    usual = ON_CPU if machine.kind == "cpu" else ELSEWHERE
    forms = options.forms.split(",") if options.forms else usual
    for form in forms:
        form_of(form)
    attention: dict[tuple[str, str], float] = {}
    cells = sorted(cells, key=lambda cell: cell.mixer != "attention")  # the others are compared with it
    for rows in _of_all(cells, lambda cell: train(cell, machine, forms, forms[-1], options.rounds)):
        attention |= {(r.sizes, r.implementation): r.seconds for r in rows if r.mixer == "attention"}
        yield [
            replace(row, of_attention=row.seconds / attention[row.sizes, row.implementation])
            if (row.sizes, row.implementation) in attention
            else row
            for row in rows
        ]


def _layers(
    run: Callable[..., list[Row]], cells: Sequence[Cell], machine: Machine, options: Namespace
) -> Rows:
    lengths = _lengths(options.seq_lens or "256,1024", max(cell.d_model for cell in cells))
    return _of_all(cells, lambda cell: [x for n in lengths for x in run(cell, machine, n, options.rounds)])


def _lengths(text: str, width: int) -> list[int]:
    """Return the numbers of tokens to measure at.  ValueError: no number, or more than the memory holds."""
    words = text.split(",")
    if not all(word.isdecimal() and len(word) < 16 and int(word) > 0 for word in words):
        raise ValueError(f"--seq-lens (={text}) must be positive integers, such as 256,1024.")
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // (LEAST_HELD * BATCH * width * 4)
    if longest := next((word for word in words if int(word) > most), None):
        raise ValueError(
            f"--seq-lens (={longest}) must be at most {most}: of {BATCH} sequences of width {width} "
            "this machine's memory holds no more."
        )
    return [int(word) for word in words]


def _ops(cells: Sequence[Cell], machine: Machine, options: Namespace) -> Rows:
    del cells
    available = [op.name for op in ops()]
    chosen = [case for case in cases(small=machine.kind == "cpu") if case.op in available]
    names = options.ops.split(",") if options.ops else available
    for name in names:
        one_of("--ops", name, tuple(dict.fromkeys(case.op for case in chosen)))
    for case in chosen:
        if case.op in names:
            yield from op_rows(case, machine, options.rounds)


def _each(run: Callable[..., list[Row]], cells: Sequence[Cell], machine: Machine, options: Namespace) -> Rows:
    return _of_all(cells, lambda cell: run(cell, machine, options.rounds))


def _of_all(cells: Sequence[Cell], run: Callable[[Cell], list[Row]]) -> Rows:
    """Yield the rows of each cell; report a cell that fails, and raise the last error if none succeeds."""
    any_yet = False
    for cell in cells:
        try:
            rows = run(cell)
        except Exception as error:
            if not any_yet and cell is cells[-1]:
                raise
            print(f"not timed: {' '.join(cell.overrides)}: {one_line(error)[:200]}", file=sys.stderr)
            continue
        any_yet = True
        yield rows


SUBJECTS: dict[str, Callable[[Sequence[Cell], Machine, Namespace], Rows]] = {
    "train": _train,
    "prefill": partial(_layers, prefill),
    "decode": partial(_layers, decode),
    "ops": _ops,
    "data": partial(_each, data),
    "population": partial(_each, population),
}
