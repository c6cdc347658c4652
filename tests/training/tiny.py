"""A cell that trains in a fraction of a second: 2 epochs of 7 steps on two segments."""

from functools import cache
from typing import Any

from tests.registry import cases, compose
from zoo.config.cell import Cell
from zoo.results.record import Outcome, Slice
from zoo.results.table import slice_name

STEPS = 14


def segment(seq_len: int, num_kv_pairs: int, num_examples: int) -> str:
    return f"{{seq_len: {seq_len}, num_kv_pairs: {num_kv_pairs}, num_examples: {num_examples}}}"


SETTINGS = {
    "mixer": cases()[0].name,
    "d_model": 16,
    "task.vocab_size": 24,
    "task.train": f"[{segment(8, 2, 16)}, {segment(12, 3, 10)}]",
    "task.valid": f"[{segment(8, 2, 6)}, {segment(12, 3, 3)}]",
    "task.test": f"[{segment(8, 2, 6)}, {segment(16, 4, 5)}]",
    "optim.batch_size": 4,
    "optim.eval_batch_size": 4,
    "optim.max_epochs": 2,
    "trainer.checkpoint_every": 3,
}


@cache
def tiny(**changes: Any) -> Cell:
    """Keys are written with __ for a dot: tiny(optim__batch_size=3)."""
    settings = SETTINGS | {key.replace("__", "."): value for key, value in changes.items()}
    words = [f"{key}={'null' if value is None else value}" for key, value in settings.items()]
    return compose(words)


def scores(outcome: Outcome, split: str) -> dict[str, Slice]:
    """By the name of the slice; without those that are not scored."""
    entries = [entry for entry in outcome["slices"] if entry["split"] == split and entry["answers"]]
    return {slice_name(entry["slice"]): entry for entry in entries}
