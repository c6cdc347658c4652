"""Measure the share of a task's answers that a window lets a mixer see: the most that it can recall."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from zoo.tasks.base import IGNORED, Split, Task, sources

Visible = Callable[[Bool[Tensor, "R T"]], Bool[Tensor, "R T"]]  # outputs -> the inputs they can depend on
HELD = 2**24  # entries of a view in memory at once


def coverage(task: Task, split: Split, visible: Visible, examples: int = 1000) -> dict[str, float] | None:
    """Return, by segment name, the share of scored answers whose source is visible from the asking place.

    None: the task does not read its answers from a place.
    visible: the method `visible` of a mixer or of a whole stack.
    examples: the largest number of examples of each segment to look at.
    """
    shares = {}
    for i, segment in enumerate(task.segments(split)):
        batch = task.sample(split, i, range(min(examples, segment.num_examples)))
        places = sources(task, batch)
        if places is None:
            return None
        scored = batch.answers != IGNORED
        covered = _in_view(visible, batch.positions[scored], places[scored], segment.seq_len)
        shares[segment.name] = covered.double().mean().item()
    return shares


def _in_view(
    visible: Visible, positions: Int[Tensor, "N"], keys: Int[Tensor, "N"], seq_len: int
) -> Bool[Tensor, "N"]:
    """Return whether the output at each position can depend on its source; each view is made only once."""
    places, row = positions.unique(return_inverse=True)
    covered_here, every = torch.zeros_like(positions, dtype=torch.bool), max(1, HELD // seq_len)
    for i, part in enumerate(places.split(every)):
        view, here = visible(part[:, None] == torch.arange(seq_len)), row // every == i
        covered_here[here] = view[row[here] % every, keys[here]]
    return covered_here
