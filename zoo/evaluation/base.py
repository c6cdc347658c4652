"""The contract of every evaluation: a question to a trained model, answered by a table."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import pandas as pd

from zoo.evaluation.trained import Trained
from zoo.tasks.base import Segment, Split


class Evaluation(ABC):
    """A question to a trained model.  conf/evaluation/NAME.yaml names the class (`_target_`) and its
    settings; `__init__` checks them.  The question is about `trained.task`: the cell's own task, or the task
    that the command line gives instead."""

    @abstractmethod
    def table(self, trained: Trained) -> pd.DataFrame:
        """Return a tidy table: one row an answer, plain numbers and words, the same columns for every model.

        ValueError, one line: this model cannot be asked (for example, it has no exact decoding).
        """

    def made_from(self, trained: Trained) -> Mapping[str, str]:
        """Return facts about the data that no setting states (`Task.made_from`), to write above the table."""
        return trained.task.made_from


def named(split: Split, segment: Segment) -> dict[str, Any]:
    """Return the first columns of a row about a slice: `split`, `slice`, and each key of the slice."""
    return {"split": split, "slice": segment.name} | segment.slice
