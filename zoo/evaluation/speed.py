"""Measure how fast a trained model reads a prompt and decodes, on this machine with its present load."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from zoo.common.checks import at_least
from zoo.evaluation.base import Evaluation
from zoo.evaluation.decode_speed import decode_tokens_per_second, prefill_tokens_per_second
from zoo.evaluation.trained import Trained
from zoo.mixers.state import peak


class Speed(Evaluation):
    """A table of a row for `prefill` at every length and batch, and a row for `decode` if decoding is exact.

    tokens_per_second: of `batch` sequences of seq_len tokens on `device`, by the median
    (`zoo.evaluation.decode_speed`); state_bytes: the most that all sequences keep while they are decoded.
    seq_len: tokens, one length or several; None: the longest test sequence of the task.
    batch: sequences at once, one count or several."""

    def __init__(self, *, seq_len: int | Sequence[int] | None, batch: int | Sequence[int]) -> None:
        self.seq_lens = [] if seq_len is None else _several("evaluation.seq_len", seq_len)
        self.batches = _several("evaluation.batch", batch)

    def table(self, trained: Trained) -> pd.DataFrame:
        """Return tokens a second of prefill and of decoding, by length and batch."""
        longest = max(segment.seq_len for segment in trained.task.segments("test"))
        lengths = self.seq_lens or [longest]
        trained.model.check_length(max(lengths))
        return pd.DataFrame(
            [row for length in lengths for batch in self.batches for row in _rows(trained, length, batch)]
        )


def _rows(trained: Trained, length: int, batch: int) -> Iterator[dict[str, Any]]:
    model, device = trained.model, trained.device
    with trained.at_work():
        speeds = {
            "prefill": prefill_tokens_per_second(model, length, device, batch),
            "decode": decode_tokens_per_second(model, length, device, batch),
        }
    state = batch * peak(model.state_size, length).resident * model.embedding.element_size()
    shape = {"seq_len": length, "batch": batch, "state_bytes": state, "device": str(device)}
    return ({"what": what, "tokens_per_second": speed} | shape for what, speed in speeds.items() if speed)


def _several(name: str, counts: int | Sequence[int]) -> list[int]:
    values = [counts] if isinstance(counts, int) else list(counts)
    if not values:
        raise ValueError(f"{name} is empty: name at least one.")
    for count in values:
        at_least(name, count, 1)
    return values
