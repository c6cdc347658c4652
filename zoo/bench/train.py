"""Time training steps of each segment, and compute the seconds of an epoch from them."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from zoo.bench.machine import Machine
from zoo.bench.rows import Row, Timed, compared
from zoo.bench.steps import Call, form_of, processes
from zoo.common.checks import one_line
from zoo.config.cell import Cell
from zoo.tasks.build import task_of

MOST_APART = 1e-3  # relative distance of two losses of one step in one precision; beyond it the forms differ


@dataclass
class Measured:
    """The measurements of one form.

    times: [segment][round], seconds; flops, held_by: [segment]; losses: step by step; peak_bytes: the most
    memory that its process held.
    """

    times: list[list[float]]
    losses: list[float] = field(default_factory=list)
    flops: list[float] = field(default_factory=list)
    held_by: list[str] = field(default_factory=list)
    peak_bytes: int | None = None

    def gap(self, other: "Measured") -> float:
        """Return the largest relative distance of the losses from those of `other`."""
        return max(abs(a - b) / abs(b) for a, b in zip(self.losses, other.losses, strict=True))


def train(cell: Cell, machine: Machine, forms: Sequence[str], alternative: str, rounds: int) -> list[Row]:
    """Time a step of each segment of the training mixture, and the epoch as the sum of its segments' steps.

    Every form trains from the same weights on the same batches, a step of each in turn; their losses are
    compared.  A form that fails is reported and left out, unless it is the alternative.  ValueError: the
    losses of a form and of an alternative of the same precision do not agree.
    """
    segments = task_of(cell).segments("train")
    with processes(cell, forms, machine.kind, machine.threads) as ask:
        measured = measure(ask, len(segments), rounds, alternative)
    _agree(measured, alternative)
    size = cell.optim.batch_size
    batches = [-(-segment.num_examples // size) for segment in segments]
    counts = [[int(i == j) for j in range(len(segments))] for i in range(len(segments))]
    names = [f"{segment.name.replace(',', ' ')} batch={size}" for segment in segments]
    if len(segments) > 1:
        counts.append(batches)
        names.append(f"epoch of {sum(batches)} batches of {size}, from {rounds} of each segment")
    rows, other = list[Row](), measured[alternative]
    for name, count in zip(names, counts, strict=True):
        timed = [_timed(form, got, other, count, size, machine) for form, got in measured.items()]
        sizes = f"d_model={cell.d_model} {name}"
        rows += compared("train", cell.mixer, sizes, "examples", timed, alternative, machine)
    return rows


def measure(ask: Mapping[str, Call], segments: int, rounds: int, alternative: str) -> dict[str, Measured]:
    """Warm every form up, then take a step of each in turn, round by round; return name -> measurements."""
    compiled = any(form_of(name).step != "eager" for name in ask)
    measured = _warmed_up(ask, range(segments) if compiled else range(1), segments, alternative)
    for turn, segment in product(range(rounds), range(segments)):
        for name, got in measured.items():
            seconds, loss = ask[name]("timed", segment, turn)
            got.losses.append(loss)
            got.times[segment].append(seconds)
    for name, got in measured.items():
        got.peak_bytes = ask[name]("peak_bytes")
        got.flops = [ask[name]("flops", i) for i in range(segments)]
        got.held_by = ["" if name == alternative else ask[name]("held_by", i) for i in range(segments)]
    return measured


def _warmed_up(
    ask: Mapping[str, Call], warmed: Iterable[int], segments: int, alternative: str
) -> dict[str, Measured]:
    """Take one step of each of the `warmed` segments with each form, which also records or compiles it."""
    measured = {}
    for name, call in ask.items():
        try:
            losses = [call("timed", segment, 0)[1] for segment in warmed]
        except Exception as error:
            if name == alternative:
                raise
            reason = f"{type(error).__name__}: {one_line(error)[:200]}"
            print(f"not timed: {name}: {reason}", file=sys.stderr)
            continue
        measured[name] = Measured([[] for _ in range(segments)], losses)
    return measured


def _timed(
    name: str, got: Measured, other: Measured, counts: Sequence[int], size: int, machine: Machine
) -> Timed:
    """Return the times of `counts` steps of each segment, summed from the measured times."""
    rounds = zip(*got.times, strict=True)
    work = sum(n * f for n, f in zip(counts, got.flops, strict=True))
    floor = machine.products(work, form_of(name).dtype)
    return Timed(
        implementation=name,
        times=[sum(n * t for n, t in zip(counts, turn, strict=True)) for turn in rounds],
        units=sum(counts) * size,
        floor=floor._replace(made_of=f"products of this form: {floor.made_of}"),
        loss_gap=None if got is other else got.gap(other),
        held_by=got.held_by[counts.index(1)] if sum(counts) == 1 else "",
        peak_bytes=got.peak_bytes,
    )


def _agree(measured: Mapping[str, Measured], alternative: str) -> None:
    """Raise ValueError if a form's losses differ from those of an alternative with the same precision."""
    for name, got in measured.items():
        gap = got.gap(measured[alternative])
        if form_of(name).precision == form_of(alternative).precision and gap > MOST_APART:
            raise ValueError(f"the losses of {name} and {alternative} are {gap:.1e} apart: no fair race.")
