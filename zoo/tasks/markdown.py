"""Write docs/tasks.md: a table with one row a task, from the task's yaml and its examples."""

import re
from itertools import takewhile
from pathlib import Path

from zoo.tasks.base import IGNORED, Task

# the first full stop that ends a sentence ("et al. 2023" has none)
SENTENCE = re.compile(r"(?<!\bal)(?<!\be\.g)\.\s")
FEW = 8  # rows on which the oracle is checked

HEAD = """# The tasks

`python -m zoo.tasks --markdown` makes this page from `conf/task/`. Each yaml there begins with its source and
with what differs from it. `python -m zoo.tasks NAME --show 2` prints rows. The laws of `zoo/tasks/laws.py`
hold for all of them.

- **kind**: `recall` is read back from an earlier place, `computation` is worked out, `text` is written.
- **answers**: the most that a row asks for. **groups**: how scores are told apart.
- **chance**: what the best guess scores that knows the task and not the row, over the test slices.
- **bits**: what a state must hold at some place of a row, at least, for every later answer to be right, in
  the slice that takes most; a dash: no bound is stated ([how they are counted](bounds.md#the-other-tasks)).
- **oracle**: what an exact program scores on test rows. It sees a row up to the place where it is asked.
- How fast rows are made: [benchmarks/tables/tasks.md](../benchmarks/tables/tasks.md).

| task | asks | kind | tokens | test slices | answers | groups | chance | bits | oracle |
|---|---|---|--:|---|--:|---|--:|--:|--:|"""


def page(tasks: dict[str, Task], files: dict[str, Path]) -> str:
    """Return the whole page from tasks and their yamls, both by name."""
    return "\n".join([HEAD, *(_row(name, task, files[name]) for name, task in tasks.items())])


def comment(path: Path) -> str:
    """Return the comment before a yaml's first setting, as one line."""
    lines = takewhile(lambda line: line.startswith("#"), path.read_text().splitlines())
    return " ".join(" ".join(line.lstrip("# ") for line in lines).split())


def _row(name: str, task: Task, path: Path) -> str:
    segments = task.segments("test")
    chances = sorted({f"{task.chance(segment):.2g}" for segment in segments}, key=float)
    answers = [task.sample("test", i, range(1)).answers.shape[1] for i in range(len(segments))]
    slices = segments[0].name if len(segments) == 1 else f"{segments[0].name} to {segments[-1].name}"
    says = SENTENCE.split(comment(path), maxsplit=1)[0].removesuffix(".").strip()  # its first sentence
    cells = (
        f"`{name}`",
        says.replace("|", "\\|"),
        task.kind,
        f"{task.vocab_size:,}",
        f"{len(segments)}: {slices}",
        f"{max(answers):,}",
        ", ".join(task.groups) or "-",
        " to ".join(dict.fromkeys((chances[0], chances[-1]))),
        _bits([task.least_bits(segment) for segment in segments]),
        "-" if task.kind == "text" else f"{_oracle(task):.0%}",
    )
    return f"| {' | '.join(cells)} |"


def _bits(values: list[float | None]) -> str:
    stated = [bits for bits in values if bits is not None]
    return f"{max(stated):,.{0 if max(stated) >= 100 else 1}f}" if stated else "-"


def _oracle(task: Task) -> float:
    right = count = 0
    for i in range(len(task.segments("test"))):
        batch = task.sample("test", i, range(FEW))
        here = batch.answers != IGNORED
        right += int((task.oracle(batch.inputs, batch.positions) == batch.answers)[here].sum())
        count += int(here.sum())
    return right / count
