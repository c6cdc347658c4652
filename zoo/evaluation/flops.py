"""Count the cost of a cell in operations, from its shapes.

Operations are counted as for decoding token by token: a multiplication and an addition (2) for each
parameter (except embedding, positions and head) and for each scalar of the state that a step touches, and
2 V d_model for each answer read off; a training step is three times its forward pass.  A chunked form or an
FFT needs a different number, so the count is an order of magnitude, not a measurement.
"""

from dataclasses import dataclass

from zoo.config.cell import Cell
from zoo.model import SequenceModel
from zoo.tasks.base import SPLITS, Split, Task
from zoo.tasks.build import task_of

SAMPLES = 16  # lengths at which the touched state is averaged over a sequence


@dataclass(frozen=True, slots=True)
class Cost:
    """The training steps of a cell, and its operations with validation and test; without early stopping."""

    steps: int
    operations: float


def cost(cell: Cell, model: SequenceModel) -> Cost:
    """Return the cost of a cell; `model` may be on the meta device, because only its shapes are read."""
    task, optim = task_of(cell), cell.optim
    epochs, batch_size = optim.max_epochs, optim.batch_size
    done = {split: 0.0 for split in SPLITS}
    steps = 0
    for split in SPLITS:
        for i, segment in enumerate(task.segments(split)):
            batches = -(-segment.num_examples // batch_size)
            streamed = split == "train" and task.data == "stream"  # every batch is then full
            examples = batches * batch_size if streamed else segment.num_examples
            done[split] += examples * _forward(model, task, split, i)
            steps += batches * epochs if split == "train" else 0
    return Cost(steps, epochs * (3 * done["train"] + done["valid"]) + done["test"])


def _forward(model: SequenceModel, task: Task, split: Split, segment: int) -> float:
    """Return the operations of the forward pass of one example of a segment."""
    seq_len = task.segments(split)[segment].seq_len
    answers = task.sample(split, segment, range(1)).positions.shape[1]
    touched = sum(model.state_size(seq_len * (i + 1) // SAMPLES).touched for i in range(SAMPLES)) / SAMPLES
    return 2 * (seq_len * (working_parameters(model) + touched) + answers * model.head_weight.numel())


def working_parameters(model: SequenceModel) -> int:
    """Return the number of parameters used at every token: all but embedding, positions and head."""
    tables = {id(table) for table in (model.embedding, model.positions, model.head) if table is not None}
    return sum(p.numel() for p in model.parameters() if id(p) not in tables)
