"""A task cut down to a few examples, for trying a command out."""

from dataclasses import replace

from zoo.common.checks import at_least
from zoo.tasks.around import Around
from zoo.tasks.base import Segment, Split, Task


class Limited(Around):
    """The first `max_examples` of each segment of a task; they are the same examples."""

    def __init__(self, task: Task, max_examples: int) -> None:
        at_least("max_examples", max_examples, 1)
        super().__init__(task)
        self.max_examples = max_examples

    def segments(self, split: Split) -> list[Segment]:
        return [
            replace(segment, num_examples=min(segment.num_examples, self.max_examples))
            for segment in self.task.segments(split)
        ]
