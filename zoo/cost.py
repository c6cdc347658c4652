"""What a cell will cost: operations from its shapes, seconds from earlier cells where there are any.

Operations are counted as decoding would need them, token by token: a multiplication and an addition (2) for
each parameter (embedding, positions and head aside) and for each scalar of the state that a step touches,
2 V d_model for each answer read off; a training step is three times its forward pass.  A chunked form or an
FFT does another number of them, so this is an order of magnitude, not a measurement.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from hydra.errors import HydraException
from omegaconf import OmegaConf

from zoo import results
from zoo.cell import Cell
from zoo.model import SequenceModel, build_model, build_task
from zoo.tasks.base import SPLITS, Split, Task

LEAST_STEPS = 100  # of an earlier cell that says how fast a step is: a shorter one is start-up
SAMPLES = 16  # lengths at which the touched state is averaged over a sequence
# Without an earlier cell: seconds a step, and operations a second (of a CPU: a thread).  With small models a
# GPU waits for its next kernel most of the time.  Right within a factor of about five.
ROUGH = {"cpu": (0.005, 2e10), "gpu": (0.01, 2e13)}


@dataclass(frozen=True, slots=True)
class Cost:
    """steps, operations: of the whole cell, validation and test included, without early stopping."""

    steps: int
    operations: float


def cost(cell: Cell, model: SequenceModel, task: Task | None = None) -> Cost:
    """model: may be on the meta device; only its shapes are read."""
    task, optim = task or build_task(cell.config), cell.config["optim"]
    epochs, batch_size = optim["max_epochs"], optim["batch_size"]
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
    """Operations of the forward pass of one example of a segment."""
    seq_len = task.segments(split)[segment].seq_len
    answers = task.sample(split, segment, range(1)).positions.shape[1]
    touched = sum(model.state_size(seq_len * (i + 1) // SAMPLES).touched for i in range(SAMPLES)) / SAMPLES
    return 2 * (seq_len * (working_parameters(model) + touched) + answers * model.head_weight.numel())


def working_parameters(model: SequenceModel) -> int:
    """Parameters that every token meets: all but embedding, positions and head."""
    tables = {id(table) for table in (model.embedding, model.positions, model.head) if table is not None}
    return sum(p.numel() for p in model.parameters() if id(p) not in tables)


class Clock:
    """Seconds that a cell will take on a kind of device ("cpu", "gpu").

    From the same point's earlier cells in the results folder (seconds a step); else from this mixer's
    (operations a second); else from any; else from ROUGH.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._records: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for path in sorted(folder.glob("*/result.json")):
            record = results.read(path.parent)
            if record["steps"] >= LEAST_STEPS:
                self._records[record["accelerator"]].append(record)
        self._rates: dict[tuple[str, str], float | None] = {}

    def seconds(self, cell: Cell, asked: Cost, kind: str) -> tuple[float, str]:
        """The estimate, and what it is made from: point, mixer, others or rough."""
        records = self._records[kind]
        same = [r["wall_seconds"] / r["steps"] for r in records if r["point"] == cell.point]
        if same:
            return median(same) * asked.steps, "point"
        for source, name in (("mixer", cell.mixer), ("others", "")):
            rate = self._rate(kind, name)
            if rate is not None:
                return asked.operations / rate, source
        seconds, rate = ROUGH[kind]
        threads = cell.config["trainer"]["threads"] if kind == "cpu" else 1
        return seconds * asked.steps + asked.operations / (rate * threads), "rough"

    def _rate(self, kind: str, mixer: str, most: int = 5) -> float | None:
        """Operations a second of a mixer's earlier cells (of all, for "")."""
        if (kind, mixer) not in self._rates:
            points = {r["point"]: r for r in self._records[kind] if mixer in ("", r["mixer"])}
            rates = [rate for record in list(points.values())[:most] if (rate := self._measured(record))]
            self._rates[kind, mixer] = median(rates) if rates else None
        return self._rates[kind, mixer]

    def _measured(self, record: Mapping[str, Any]) -> float | None:
        """None for a record that this code cannot build again: its config is gone, or of another version."""
        try:
            config: Any = OmegaConf.to_container(
                OmegaConf.load(self.folder / record["run_id"] / "config.yaml")
            )
            cell = Cell(config, {"mixer": record["mixer"]})
            with torch.device("meta"):
                model = build_model(cell)
            asked = cost(cell, model)
        except (OSError, HydraException, KeyError, TypeError, ValueError):
            return None
        return asked.operations * record["steps"] / asked.steps / record["wall_seconds"]
