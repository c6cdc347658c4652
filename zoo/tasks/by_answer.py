"""Tasks whose answers are also told apart by the answer itself, for the mean over its classes ("macro")."""

from typing import Any

from zoo.tasks.base import Batch, Device, Examples, Split
from zoo.tasks.groups import Number
from zoo.tasks.mixture import Mixture


class ByAnswer(Mixture):
    """A mixture with one more group, `answer`: a record then counts the right answers of each token.

    MAD's accuracy is the mean over the answers' tokens, of those that are asked for; ours is over answers.
    """

    def __init__(self, **mixture: Any) -> None:
        super().__init__(**mixture)
        self.groups = {**type(self).groups, "answer": Number(self.vocab_size)}

    def sample(self, split: Split, segment: int, examples: Examples, device: Device = "cpu") -> Batch:
        batch = super().sample(split, segment, examples, device)
        return batch._replace(groups={**batch.groups, "answer": batch.answers.clamp(min=0)})
