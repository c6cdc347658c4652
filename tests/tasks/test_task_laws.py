"""The laws of zoo/tasks/laws.py over every task, and each law over a task that breaks it.

ZOO_LAWS_OF=my_conf python -m pytest tests/tasks/test_task_laws.py     tests the tasks of a folder of your own
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from tests.tasks.laws import mqar
from zoo.config.paths import CONF
from zoo.tasks import laws
from zoo.tasks.__main__ import ENOUGH, broken, build
from zoo.tasks.base import IGNORED, Batch, Split, Task, joined
from zoo.tasks.coverage import coverage
from zoo.tasks.groups import Number

FOLDER = Path(os.environ.get("ZOO_LAWS_OF", CONF))
FILES = {path.stem: path for path in sorted((FOLDER / "task").glob("*.yaml"))}
NAMES = list(FILES)
each_task = pytest.mark.parametrize("name", NAMES)


def task_of(name: str, seed: int = 0, most: int = ENOUGH) -> Task:
    """Build a task of at most so many examples a segment: some tasks make a whole segment at once."""
    return build(name, [], seed, FILES, most)


def test_there_is_a_task():
    assert NAMES


@each_task
def test_a_task_keeps_every_law(name: str):
    assert not broken(name, files=FILES)


@each_task
def test_coverage_is_a_share_and_everything_is_covered_by_the_whole_past(name: str):
    def all_of(request: Tensor) -> Tensor:
        return request.flip(-1).cumsum(-1).flip(-1) > 0

    task = task_of(name)
    segments = task.segments("test")
    longest = max(segment.seq_len for segment in segments)
    if longest > 8192 or coverage(task, "test", all_of, examples=1) is None:  # a view is of longest ** 2
        return
    for view, share in ((all_of, 1.0), (lambda request: request, 0.0)):
        shares = coverage(task, "test", view, examples=laws.FEW)
        assert shares == {segment.name: share for segment in segments}


@each_task
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_same_bytes_on_a_gpu(name: str):
    task = task_of(name)
    for i in range(len(task.segments("test"))):
        here, there = (task.sample("test", i, range(200), device) for device in ("cpu", "cuda"))
        assert laws.same(joined(Tensor.cpu, there), here)


# Planted mistakes: batches that `sample` returns, changed.
class Request(NamedTuple):
    task: Task
    split: Split
    segment: int
    examples: Tensor


Change = Callable[[Request, Batch], Batch]


class Wrong(type(mqar(16, 3))):
    """MQAR whose rows go through `change` on their way out."""

    change: Change

    def sample(self, split, segment, examples, device="cpu"):  # pyright: ignore
        examples = torch.as_tensor(list(examples) if isinstance(examples, range) else examples)
        batch = super().sample(split, segment, examples, device)
        return type(self).change(Request(self, split, segment, examples), batch)


def _drawn(request: Request, batch: Batch) -> Batch:
    torch.rand(1)
    return batch


def _period(request: Request, batch: Batch) -> Batch:
    """Examples come round again."""
    task, split, segment, examples = request
    return batch if examples.max() < 2**20 else task.sample(split, segment, examples % 2**20 % 7)


def _known(request: Request, batch: Batch) -> Batch:
    """The answer of the first pair is always the same: easier to guess than the stated chance."""
    value = batch.inputs[:, [1]]
    swap = torch.where(batch.inputs == value, 40, torch.where(batch.inputs == 40, value, batch.inputs))
    answers = torch.where(batch.answers == value, 40, torch.where(batch.answers == 40, value, batch.answers))
    return batch._replace(inputs=swap, answers=answers)


def changed(part: str, to: Callable[[Request, Batch], Any]) -> Change:
    return lambda request, batch: batch._replace(**{part: to(request, batch)})


PLANTED: dict[Change, str] = {
    # the answer is what stands after the query
    changed("answers", lambda _, b: b.inputs.gather(1, b.positions + 1)): "an oracle is right",
    # how many rows a batch has is in them
    changed(
        "inputs", lambda a, b: b.inputs.index_fill(1, torch.tensor([15]), len(a.examples))
    ): "the same bytes",
    _drawn: "sampling touches",
    # validation and test rows are those of training
    lambda a, b: (
        b if a.split == "train" else a.task.sample("train", a.segment, a.examples)
    ): "splits and seeds",
    _period: "examples far away",
    changed("groups", lambda _, b: {"distance": torch.ones_like(b.answers)}): "each answer is read",
    # a group without a row for each example, which other laws index by
    changed("groups", lambda _, b: {"distance": torch.ones_like(b.answers[0])}): "shapes and types",
    changed("answers", lambda a, b: b.answers.where((a.examples > 0)[:, None], IGNORED)): "shapes and types",
    _known: "guessing scores chance",
    changed("inputs", lambda _, b: b.inputs + 32): "ranges",
    changed("positions", lambda _, b: b.positions + 12): "ranges",  # laws below it index by these
    changed("grups", lambda _, b: b): "shapes and types: ValueError: Got unexpected field names: ['grups']",
}


def with_change(change: Change) -> Callable[[int], Task]:
    return with_attribute("__class__", type("Planted", (Wrong,), {"change": staticmethod(change)}))


def with_attribute(name: str, value: object) -> Callable[[int], Task]:
    def build_task(seed: int) -> Task:
        task = mqar(16, 3, vocab_size=64, filler="safe", seed=seed)
        setattr(task, name, value)
        return task

    return build_task


@pytest.mark.parametrize("change", PLANTED, ids=[*PLANTED.values()])
def test_a_law_notices_a_task_that_breaks_it(change: Change):
    assert any(line.startswith(PLANTED[change]) for line in laws.broken(with_change(change)))


@pytest.mark.parametrize(
    ("attribute", "value", "words"),
    [
        ("chance", lambda segment: 0.5, "no single guess scores 0.5"),
        ("chance", lambda segment: 1 / 64, "more than 0.0156"),
        ("load", "depth", "lacks depth"),
        ("least_bits", lambda segment: 1e6, "least_bits (=1e+06) must be at least 0 and at most"),
        ("least_bits", lambda segment: -1.0, "least_bits (=-1) must be at least 0"),
        ("groups", {}, "groups are"),
        ("groups", {"distance": Number(2)}, "none of Number(below=2)"),
        ("oracle", lambda inputs, positions: inputs.gather(1, (positions + 1).clamp(max=15)), "oracle"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_a_law_notices_a_wrong_statement(attribute: str, value: object, words: str):
    assert any(words in line for line in laws.broken(with_attribute(attribute, value)))


def test_the_task_breaks_no_law_unchanged():
    assert not laws.broken(with_change(lambda request, batch: batch))
