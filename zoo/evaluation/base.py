"""The one contract of an evaluation: a question to a trained model, answered by a table."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import pandas as pd

from zoo.evaluation.trained import Trained
from zoo.tasks.base import Segment, Split


class Evaluation(ABC):
    """conf/evaluation/NAME.yaml names the class (`_target_`) and its settings; `__init__` checks them.

    It asks about `trained.task`, which is the cell's own or the one that the command line gives in its place.
    """

    @abstractmethod
    def table(self, trained: Trained) -> pd.DataFrame:
        """Tidy: one row an answer, plain numbers and words, the same columns for every model.

        ValueError, one line: this model cannot be asked (it has no exact decoding, say).
        """

    def made_from(self, trained: Trained) -> Mapping[str, str]:
        """Return what was asked that no setting says (`Task.made_from`); it stands above the table."""
        return trained.task.made_from


def named(split: Split, segment: Segment) -> dict[str, Any]:
    """Begin a row about a slice: `split`, `slice`, and a column for each key of the slice."""
    return {"split": split, "slice": segment.name} | segment.slice
