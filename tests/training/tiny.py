"""Small cells for tests of training, and comparisons of what two trainings leave."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.registry import cases, compose
from zoo.config.cell import Cell
from zoo.config.settings import OptimConfig, optim_settings
from zoo.results.record import Outcome, Slice
from zoo.results.table import slice_name
from zoo.training.cuda_graphs import WARM_UPS

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
    """Compose a small cell; keys have __ for a dot: tiny(optim__batch_size=3)."""
    settings = SETTINGS | {key.replace("__", "."): value for key, value in changes.items()}
    words = [f"{key}={'null' if value is None else value}" for key, value in settings.items()]
    return compose(words)


def optim(**changes: Any) -> OptimConfig:
    """Return the settings of tiny()'s optimizer and schedule, some of them changed."""
    return optim_settings(tiny().config["optim"] | changes)


def scores(outcome: Outcome, split: str) -> dict[str, Slice]:
    """Map the names of a split's scored slices to their scores."""
    entries = [entry for entry in outcome["slices"] if entry["split"] == split and entry["answers"]]
    return {slice_name(entry["slice"]): entry for entry in entries}


class Called:
    """A recorder of steps on the CPU; it counts the recorded steps and the replays."""

    recorded = replayed = 0

    def warm_up(self, step: Callable[[], Tensor]) -> None:
        for _ in range(WARM_UPS):
            step()

    def record(self, step: Callable[[], Tensor]) -> Callable[[], Tensor]:
        type(self).recorded += 1
        result: list[Tensor] = []

        def replay() -> Tensor:
            type(self).replayed += 1
            value = step()
            if not result:
                result.append(torch.empty_like(value))
            return result[0].copy_(value)

        return replay


def checkpoint(folder: Path) -> dict[str, Any]:
    """Return last.ckpt without its times and the form of its steps."""
    contents = torch.load(folder / "last.ckpt", weights_only=True)
    varying = ("seconds", "step_form")
    position = {k: v for k, v in contents["position"].items() if not k.endswith(varying)}
    return contents | {"position": position}


def assert_same(a: Path, b: Path) -> None:
    assert (a / "metrics.csv").read_bytes() == (b / "metrics.csv").read_bytes()
    assert same(checkpoint(a), checkpoint(b))


def same(a: Any, b: Any) -> bool:
    """Return whether two nested values are equal to the last bit and in every type."""
    if isinstance(a, dict):
        return isinstance(b, dict) and [*a] == [*b] and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and a.dtype == b.dtype and torch.equal(a.nan_to_num(), b.nan_to_num())
    return type(a) is type(b) and (a == b or (a != a and b != b))
