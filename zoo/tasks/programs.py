"""Oracles as programs: the right answer from a row up to where it is asked, in plain Python."""

from collections.abc import Callable

import torch
from jaxtyping import Int
from torch import Tensor

from zoo.tasks.base import IGNORED


def answered(
    program: Callable[[list[int]], int], inputs: Int[Tensor, "B T"], positions: Int[Tensor, "B A"]
) -> Int[Tensor, "B A"]:
    """Return the answer of `program` to each row up to and with each position; it sees nothing later.

    IGNORED where it stumbles (a LookupError or ValueError), as over a past that no row of the task has.
    """
    rows = zip(inputs.tolist(), positions.tolist(), strict=True)
    results = [[_result(program, row[: position + 1]) for position in places] for row, places in rows]
    return torch.tensor(results, device=inputs.device).view_as(positions)


def _result(program: Callable[[list[int]], int], past: list[int]) -> int:
    try:
        return program(past)
    except (LookupError, ValueError):
        return IGNORED
