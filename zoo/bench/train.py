"""Training: seconds of an epoch, from steps that are sampled of each of its segments."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from zoo.bench.machine import Machine
from zoo.bench.rows import Floor, Row, Timed, compared
from zoo.bench.steps import FORMS, Asked, processes
from zoo.config.cell import Cell
from zoo.instantiate import task_of

MOST_APART = 1e-3  # relative distance of two float32 losses of one step; beyond it something else is computed


@dataclass
class Found:
    """Of one form.  times: [segment][round], seconds; flops, held_by: [segment]; losses: step by step."""

    times: list[list[float]]
    losses: list[float] = field(default_factory=list)
    flops: list[float] = field(default_factory=list)
    held_by: list[str] = field(default_factory=list)

    def gap(self, other: "Found") -> float:
        """The largest relative distance of the losses."""
        return max(abs(a - b) / abs(b) for a, b in zip(self.losses, other.losses, strict=True))


def train(cell: Cell, machine: Machine, forms: Sequence[str], alternative: str, rounds: int) -> list[Row]:
    """For each segment of the training mixture, and for the epoch as so many steps of each.

    Every form trains from the same weights on the same batches, a step of each in turn; the losses are
    compared.  ValueError: forms of one precision do not agree.
    """
    segments = task_of(cell).segments("train")
    with processes(cell, forms, machine.kind, machine.threads) as ask:
        found = measured(ask, len(segments), rounds, alternative)
    _agree(found, alternative)
    size = cell.optim.batch_size
    batches = [-(-segment.num_examples // size) for segment in segments]
    counts = [[int(i == j) for j in range(len(segments))] for i in range(len(segments))]
    names = [f"{segment.name.replace(',', ' ')} batch={size}" for segment in segments]
    if len(segments) > 1:
        counts.append(batches)
        names.append(f"epoch of {sum(batches)} batches of {size}, from {rounds} of each segment")
    return [
        row
        for name, count in zip(names, counts, strict=True)
        for row in compared(
            "train",
            cell.mixer,
            f"d_model={cell.d_model} {name}",
            "examples",
            [_timed(form, found, alternative, count, size, machine) for form in forms],
            alternative,
            machine,
        )
    ]


def measured(ask: Mapping[str, Asked], segments: int, rounds: int, alternative: str) -> dict[str, Found]:
    found = {name: Found([[] for _ in range(segments)]) for name in ask}
    for turn, segment in _turns(segments, rounds):
        for name, asked in ask.items():
            seconds, loss = asked("timed", segment, max(turn, 0))
            found[name].losses.append(loss)
            if turn >= 0:
                found[name].times[segment].append(seconds)
    for name, asked in ask.items():
        found[name].flops = [asked("flops", i) for i in range(segments)]
        found[name].held_by = ["" if name == alternative else asked("held_by", i) for i in range(segments)]
    return found


def _turns(segments: int, rounds: int) -> Iterator[tuple[int, int]]:
    """(round, segment); round -1 warms up."""
    yield -1, 0
    yield from ((turn, segment) for turn in range(rounds) for segment in range(segments))


def _timed(
    name: str,
    found: Mapping[str, Found],
    alternative: str,
    counts: Sequence[int],
    size: int,
    machine: Machine,
) -> Timed:
    """So many steps of each segment."""
    got = found[name]
    rounds = zip(*got.times, strict=True)
    work = sum(n * f for n, f in zip(counts, got.flops, strict=True))
    seconds, made_of = machine.products(work, dtype_of(name))
    return Timed(
        implementation=name,
        times=[sum(n * t for n, t in zip(counts, turn, strict=True)) for turn in rounds],
        units=sum(counts) * size,
        floor=Floor(seconds=seconds, made_of=f"products of this form: {made_of}"),
        loss_gap=None if name == alternative else got.gap(found[alternative]),
        held_by=got.held_by[counts.index(1)] if sum(counts) == 1 else "",
    )


def dtype_of(form: str) -> torch.dtype:
    """In which most of its products are made."""
    return torch.float32 if FORMS[form].precision == "32-true" else torch.bfloat16


def _agree(found: Mapping[str, Found], alternative: str) -> None:
    for name, got in found.items():
        gap = got.gap(found[alternative])
        if FORMS[name].precision == FORMS[alternative].precision and gap > MOST_APART:
            raise ValueError(f"the losses of {name} and {alternative} are {gap:.1e} apart: no fair race.")
