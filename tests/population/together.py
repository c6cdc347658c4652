"""Train the same cells one by one and as a population, and compare all that they leave."""

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import keystr, tree_flatten_with_path

from zoo.config.cell import Cell
from zoo.results.record import Outcome
from zoo.training.build import build
from zoo.training.population.train import train_population
from zoo.training.process import prepare
from zoo.training.resume import resume
from zoo.training.train import train

# measured, and so never the same twice; a hash of weights shows their last bits
MEASURED = (
    "wall_seconds",
    "examples_per_second",
    "decode_tokens_per_second",
    "peak_memory_bytes",
    "weights",
    "began",
    "ended",
)


@dataclass
class Left:
    outcomes: list[Outcome]
    folders: list[Path]


def alone_and_together(cells: list[Cell], place: Path, skip: int = 0) -> tuple[Left, Left]:
    folders = [fresh(place / "together" / str(i)) for i in range(len(cells))]
    together = Left(trained_together(cells, folders)[skip:], folders[skip:])
    return trained_alone(cells[skip:], place), together


def trained_alone(cells: list[Cell], place: Path) -> Left:
    folders = [fresh(place / "alone" / str(i)) for i in range(len(cells))]
    return Left([train(cell, folder) for cell, folder in zip(cells, folders, strict=True)], folders)


def trained_together(cells: list[Cell], folders: list[Path]) -> list[Outcome]:
    with prepare(cells[0]) as choice:
        members = [resume(build(cell, folder)) for cell, folder in zip(cells, folders, strict=True)]
        train_population(members, choice)
    return [run.outcome for run in members if run.outcome]


def fresh(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def assert_same_ends(alone: Left, together: Left, tolerance: float = 1e-8) -> None:
    """Assert that both left the same checkpoints, metrics and outcomes.

    tolerance: Adam divides by the root of small gradients, and so makes rounding larger.
    """
    for a, b, i in zip(alone.folders, together.folders, range(len(alone.folders)), strict=True):
        _assert_close(_checkpoint(a), _checkpoint(b), tolerance, f"member {i}")
        _assert_close(_metrics(a), _metrics(b), tolerance, f"metrics of member {i}")
        _assert_close(told(alone.outcomes[i]), told(together.outcomes[i]), tolerance, f"outcome {i}")


def _checkpoint(folder: Path) -> dict[str, Any]:
    path = folder / "last.ckpt"
    if not path.exists():
        return {}
    saved = torch.load(path, weights_only=True)
    return saved | {"position": {k: v for k, v in saved["position"].items() if not k.endswith("seconds")}}


def _metrics(folder: Path) -> list[tuple[Any, ...]]:
    with (folder / "metrics.csv").open() as file:
        return [(*row[:4], float(row[4])) for row in list(csv.reader(file))[1:]]


def told(outcome: Outcome) -> dict[str, Any]:
    return {key: value for key, value in outcome.items() if key not in MEASURED}


def _assert_close(a: Any, b: Any, tolerance: float, name: str) -> None:
    def empty(node: Any) -> bool:
        return isinstance(node, dict | list | tuple) and not node

    mine, theirs = (dict(tree_flatten_with_path(tree, is_leaf=empty)[0]) for tree in (a, b))
    assert mine.keys() == theirs.keys()
    for keys, x in mine.items():
        y, path = theirs[keys], name + keystr(keys)
        if isinstance(x, torch.Tensor):
            assert x.dtype == y.dtype and x.shape == y.shape, path
            assert torch.allclose(x, y, rtol=tolerance, atol=tolerance), (path, float((x - y).abs().max()))
        elif isinstance(x, float):
            assert math.isclose(x, y, rel_tol=tolerance, abs_tol=tolerance) or (x != x and y != y), path
        else:
            assert x == y, path
