"""Let a trained model write after a prompt, token by token from its state, which is how RULER is scored."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd
import torch

from zoo.common.checks import at_least
from zoo.evaluation.base import Evaluation, named
from zoo.evaluation.scores import rows_together
from zoo.evaluation.trained import Trained
from zoo.tasks.around import inmost
from zoo.tasks.base import IGNORED, Batch, Split, Task


class Written(NamedTuple):
    """What should follow the prompt (`answer`), and what did follow up to the task's `stop` (`said`)."""

    answer: list[int]
    said: list[int]


class Greedy(Evaluation):
    """A table of one row a slice: how `rows` prompts are continued by the most likely token each time.

    A prompt is a row up to the first place that asks.  exact: the share of prompts that are followed by the
    whole answer and by `stop`, if the task has one.  matched: the share of an answer's parts (between
    `task.separator`) that stand somewhere in what was written, as the mean over prompts: RULER's
    string_match_all.  tokens: the mean number of tokens written.

    split: of the task.  rows: the most of each slice; None: all.  budget: the most tokens to write; None: as
    many as the answer has.
    """

    def __init__(self, *, split: Split, rows: int | None, budget: int | None) -> None:
        for name, value in (("rows", rows), ("budget", budget)):
            if value is not None:
                at_least(f"evaluation.{name}", value, 1)
        self.split: Split = split
        self.rows, self.budget = rows, budget

    def table(self, trained: Trained) -> pd.DataFrame:
        """Return what the model writes after each prompt, counted against the answer."""
        return pd.DataFrame([self._scored(trained, i) for i in range(len(trained.task.segments(self.split)))])

    def _scored(self, trained: Trained, index: int) -> dict[str, Any]:
        task = trained.task
        segment = task.segments(self.split)[index]
        rows = min(segment.num_examples, self.rows or segment.num_examples)
        written = []
        for examples in torch.arange(rows).split(rows_together(segment.seq_len)):
            batch = task.sample(self.split, index, examples, trained.device)
            written += continued(trained, batch, self.budget, segment.name)
        frame = pd.DataFrame([_judged(one, task.separator, task.stop) for one in written])
        return named(self.split, segment) | frame.mean().to_dict() | {"rows": rows}


def continued(trained: Trained, batch: Batch, budget: int | None, name: str) -> Iterator[Written]:
    """Yield what the model writes after the prompt of each row.

    ValueError: the answers of a row do not follow each other.
    """
    scored = batch.answers != IGNORED
    first = batch.positions.where(scored, batch.inputs.shape[1]).amin(1)
    _check_written(trained.task, batch, name)
    for place in first.unique().tolist():
        some = batch.answers[first == place]
        answers = [[token for token in row if token != IGNORED] for row in some.tolist()]
        steps = budget or max(map(len, answers))
        tokens = trained.greedy(batch.inputs[first == place, : place + 1], steps, trained.task.stop).tolist()
        for answer, row in zip(answers, tokens, strict=True):
            stop = trained.task.stop
            yield Written(answer, row[: row.index(stop) + 1] if stop in row else row)


def _check_written(task: Task, batch: Batch, name: str) -> None:
    """Raise ValueError unless the answers stand in the row, each read off at the place of the one before."""
    scored = batch.answers != IGNORED
    follows = scored[:, 1:] & scored[:, :-1]
    places, stands = batch.positions, batch.inputs.gather(1, batch.positions)
    right = (places[:, 1:] == places[:, :-1] + 1) & (stands[:, 1:] == batch.answers[:, :-1])
    if (follows & ~right).any() or (scored[:, 1:] & ~scored[:, :-1]).any():
        raise ValueError(
            f"the answers of {type(inmost(task)).__name__} ({name}) do not follow each other in a row, so "
            "that there is nothing to write: use evaluation=scores."
        )


def _judged(one: Written, separator: int | None, stop: int | None) -> dict[str, float]:
    content = one.answer[:-1] if stop is not None and one.answer[-1] == stop else one.answer
    parts = _parts(content, separator)
    stand = [_stands(part, one.said) for part in parts]
    exact = float(one.said[: len(one.answer)] == one.answer)
    return {"exact": exact, "matched": sum(stand) / len(stand), "tokens": float(len(one.said))}


def _parts(tokens: list[int], separator: int | None) -> list[list[int]]:
    parts: list[list[int]] = [[]]
    for token in tokens:
        if token == separator:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _stands(part: list[int], tokens: list[int]) -> bool:
    return any(tokens[i : i + len(part)] == part for i in range(len(tokens) - len(part) + 1))
