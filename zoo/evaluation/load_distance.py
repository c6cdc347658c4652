"""Test a trained MQAR cell on rows of `mqar_probe`, load by distance, to see which of the two limits it."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from zoo.common.checks import at_least
from zoo.evaluation.base import Evaluation
from zoo.evaluation.scores import rows_together
from zoo.evaluation.trained import Trained
from zoo.tasks.around import inmost
from zoo.tasks.base import Batch
from zoo.tasks.mqar import MQAR, Pairs
from zoo.tasks.mqar_probe import MQARProbe, blinded, probe_task, with_room


class LoadDistance(Evaluation):
    """A table of one row for each number of pairs and distance (mean tokens from key to query) with room.

    accuracy; error: its standard error, over rows.  blind, blind_error: the same after the context's keys are
    replaced by others, so that a model can only guess among the row's values (NaN: the vocabulary has too few
    keys).  guess: 1 / pairs, the best score of such a guess.  rows: of each.  trained: 1 if training had as
    many pairs and as long rows, else 0.

    loads, distances: the grid; None: powers of two, from 2 pairs to 4 times the most pairs of training, and
    from 4 tokens to `farthest` times its longest row.
    """

    def __init__(
        self, *, loads: Sequence[int] | None, distances: Sequence[int] | None, farthest: int, rows: int
    ) -> None:
        for name, values in (("loads", loads), ("distances", distances)):
            for value in values or ():
                at_least(f"evaluation.{name}", value, 1)
        at_least("evaluation.farthest", farthest, 1)
        at_least("evaluation.rows", rows, 2)
        self.loads, self.distances, self.farthest, self.rows = loads, distances, farthest, rows

    def table(self, trained: Trained) -> pd.DataFrame:
        """Return the accuracy, and that without the right keys, for each number of pairs and distance."""
        task = inmost(trained.task)
        if not isinstance(task, MQAR):
            raise ValueError(f"load_distance needs pairs, and {type(task).__name__} has none: use task=mqar.")
        # the most pairs and the longest row of training
        loads = [load for load in task.loads("train") if isinstance(load, Pairs)]
        most, longest = (max(load.num_kv_pairs for load in loads), max(load.seq_len for load in loads))
        grid = list(self._grid(trained, task, most, longest))
        probe = probe_task(task, grid)
        known = [int(load.num_kv_pairs <= most and load.seq_len <= longest) for load in grid]
        rows = [self._cell(trained, probe, i, load) for i, load in enumerate(grid)]
        return pd.DataFrame(rows).assign(trained=known)

    def _grid(self, trained: Trained, task: MQAR, most: int, longest: int) -> Iterator[Pairs]:
        loads = self.loads or _powers(2, min(4 * most, task.num_keys))
        for pairs in loads:
            for distance in self.distances or _powers(4, self.farthest * longest):
                load = with_room(pairs, distance, self.rows)
                if load and not trained.refuses(load.seq_len):
                    yield load

    def _cell(self, trained: Trained, probe: MQARProbe, index: int, load: Pairs) -> dict[str, Any]:
        shown, blind = [], []
        for examples in torch.arange(self.rows, device=trained.device).split(rows_together(load.seq_len)):
            batch = probe.sample("test", index, examples, trained.device)
            shown.append(_right(trained, batch))
            others = blinded(batch, probe.vocab_size, examples, probe.seed)
            if others is not None:
                blind.append(_right(trained, batch._replace(inputs=others)))
        pairs = load.num_kv_pairs
        named = {"num_kv_pairs": pairs, "distance": load.seq_len - 2 * pairs, "seq_len": load.seq_len}
        scores = _scored("accuracy", "error", shown) | _scored("blind", "blind_error", blind)
        return named | scores | {"guess": 1 / pairs, "rows": self.rows}


def _powers(first: int, last: int) -> list[int]:
    return [2**i for i in range(first.bit_length() - 1, last.bit_length())]


def _right(trained: Trained, batch: Batch) -> Float[Tensor, " B"]:
    """Return the share of each row's answers that are right."""
    _, best = trained.answered(batch)
    return (best.view_as(batch.answers) == batch.answers).double().mean(1).cpu()


def _scored(mean: str, error: str, parts: Sequence[Float[Tensor, " B"]]) -> dict[str, float]:
    rows = torch.cat(list(parts)) if parts else torch.full((2,), torch.nan)
    return {mean: rows.mean().item(), error: rows.std().item() / len(rows) ** 0.5}
