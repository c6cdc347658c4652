"""Count the states that suffice for a task, over all of its rows where these are few."""

import random
from collections import defaultdict

import torch
from torch import Tensor

from zoo.tasks.base import IGNORED, Batch, Task

FEWEST = 512  # rows drawn first; if all of them differ, the segment has too many rows to count
ALL = 2**13  # rows drawn then; unless each comes at least twice, some rows may be missing: not counted
ORDERS = 8  # random orders in which beginnings are given states
Goes = dict[tuple[int, ...], int]  # the tokens up to a question and the question's number -> its answer


def all_rows(task: Task, segment: int) -> Batch | None:
    """Return every row of a test segment once; None: there are too many rows to be sure of having all."""
    for count in (FEWEST, ALL):
        rows, times = distinct(task.sample("test", segment, range(count)))
        if count == FEWEST and len(times) == count:
            return None
    return None if times.min() == 1 else rows


def distinct(batch: Batch) -> tuple[Batch, Tensor]:
    """Return each different row once, and how many times the batch has each of these rows."""
    whole = torch.cat([batch.inputs, batch.positions, batch.answers], dim=1)
    _, row, times = whole.unique(dim=0, return_inverse=True, return_counts=True)
    first = torch.full_like(times, len(row)).scatter_reduce(0, row, torch.arange(len(row)), "amin")
    return Batch.of(*(part[first] for part in batch.tensors)), times


def continuations(batch: Batch, place: int, decoder: bool) -> list[Goes]:
    """Return, for each beginning of `place` tokens, what may follow up to a question, with its answer.

    decoder: all answers are read off one position, so the question's number tells questions apart.
    """
    goes: dict[tuple[int, ...], Goes] = defaultdict(dict)
    for row, positions, answers in zip(*(part.tolist() for part in batch.tensors), strict=True):
        for number, (at, answer) in enumerate(zip(positions, answers, strict=True)):
            if answer != IGNORED and at >= place:
                goes[tuple(row[:place])][(*row[place : at + 1], number if decoder else -1)] = answer
    return list(goes.values())


def enough_states(batch: Batch, decoder: bool) -> int:
    """Return a number of states that suffices for every later answer to be right, after any number of tokens.

    Beginnings share a state if no continuation tells them apart; the count is the best of a few orders.  A
    smaller count may exist, but never one below 2 ** least_bits.
    """
    generator, places = random.Random(0), range(1, batch.inputs.shape[1])
    return max(_states(continuations(batch, place, decoder), generator) for place in places)


def _states(beginnings: list[Goes], generator: random.Random) -> int:
    fewest = len(beginnings)
    for _ in range(ORDERS):
        generator.shuffle(beginnings)
        states: list[Goes] = []
        for one in sorted(beginnings, key=len, reverse=True):
            for shared in states:
                if all(shared.get(go, answer) == answer for go, answer in one.items()):
                    shared |= one
                    break
            else:
                states.append(dict(one))
        fewest = min(fewest, len(states))
    return fewest
