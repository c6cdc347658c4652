"""Time how a task's rows are made: in blocks as in training, batch by batch, and by a numpy reference."""

from collections.abc import Callable

from zoo.bench.machine import Machine
from zoo.bench.rows import Row, compared, timed
from zoo.bench.timing import in_turn
from zoo.config.cell import Cell
from zoo.tasks.batches import BatchStream
from zoo.tasks.build import task_of
from zoo.tasks.mqar import MQAR
from zoo.tasks.mqar_numpy_compat import reference_rows

SAMPLE = 500  # rows that numpy makes; it makes them one by one, so its time is proportional to rows
BY_BATCH, NUMPY = "batch by batch", "numpy, row by row, without filler"


def data(cell: Cell, machine: Machine, rounds: int) -> list[Row]:
    """Time how the rows of one training epoch are made, all segments together."""
    task, size = task_of(cell), cell.optim.batch_size
    segments = task.segments("train")
    total = sum(segment.num_examples for segment in segments)
    runs: dict[str, Callable[[], object]] = {
        "in blocks": lambda: [None for _ in BatchStream(task, "train", size, machine.kind)],
        BY_BATCH: lambda: [
            task.sample("train", i, range(start, min(start + size, segment.num_examples)), machine.kind)
            for i, segment in enumerate(segments)
            for start in range(0, segment.num_examples, size)
        ],
    }
    times = in_turn(runs, machine, rounds)
    if isinstance(task, MQAR) and task.num_passes == 1:
        times[NUMPY] = _numpy(task, machine, rounds)
    tokens = sum(segment.num_examples * segment.seq_len for segment in segments)
    floor = machine.moved(8 * tokens)
    against = NUMPY if NUMPY in times else BY_BATCH
    sizes = f"task={cell.task} {total} rows of {tokens // total} tokens on average, batch={size}"
    return compared("data", "", sizes, "rows", timed(times, total, lambda _: floor), against, machine)


def _numpy(task: MQAR, machine: Machine, rounds: int) -> list[float]:
    """Return each round's seconds, measured on up to SAMPLE rows of each segment and scaled to all rows."""
    times = []
    for _ in range(rounds):
        seconds = 0.0
        for segment in task.segments("train"):
            rows, pairs = min(SAMPLE, segment.num_examples), segment.count("num_kv_pairs")
            load = {"seq_len": segment.seq_len, "num_kv_pairs": pairs, "num_examples": rows}
            start = machine.now()
            reference_rows(seed=0, vocab_size=task.vocab_size, **load)
            seconds += (machine.now() - start) * segment.num_examples / rows
        times.append(seconds)
    return times
