"""How much of a task lies in a window's view: what a trained model with that view can at most recall."""

from collections.abc import Callable

from jaxtyping import Bool
from torch import Tensor

from zoo.tasks.base import IGNORED, Split, Task, sources

Visible = Callable[[int], Bool[Tensor, "T T"]]  # seq_len -> [t, s]: can output t depend on input s


def coverage(task: Task, split: Split, visible: Visible, examples: int = 1000) -> dict[str, float] | None:
    """Share of the scored answers whose source is visible from where it is asked for, by segment name.

    None: the task does not read its answers from a place.
    visible: a mixer's method of that name, or a whole stack's.
    examples: how many of each segment are looked at, at most.
    """
    shares = {}
    for i, segment in enumerate(task.segments(split)):
        batch = task.sample(split, i, range(min(examples, segment.num_examples)))
        places = sources(task, batch)
        if places is None:
            return None
        asked = batch.answers != IGNORED
        seen = visible(segment.seq_len)[batch.positions[asked], places[asked]]
        shares[segment.name] = seen.double().mean().item()
    return shares
