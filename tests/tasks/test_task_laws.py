"""Laws every task obeys.  No task is named: a new conf/task/*.yaml is tested on arrival."""

from functools import cache

import pytest
import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf
from torch import Tensor

from zoo.config.paths import CONF
from zoo.tasks.base import DATA, ORDERS, SPLITS, Batch, Split, Task
from zoo.tasks.batches import BatchStream
from zoo.tasks.coverage import coverage

FEW = 12
NAMES = sorted(path.stem for path in (CONF / "task").glob("*.yaml"))
each_task = pytest.mark.parametrize("name", NAMES)
each_split = pytest.mark.parametrize("split", SPLITS)


@cache
def task_of(name: str, seed: int = 0, most: int = 256) -> Task:
    """With so many examples a segment at most: a task may make its segments whole."""
    config = OmegaConf.create({"seed": seed, "task": OmegaConf.load(CONF / "task" / f"{name}.yaml")}).task
    for load in [load for split in SPLITS for load in config.get(split) or []]:
        load.num_examples = min(load.num_examples, most)
    return instantiate(config, _convert_="all")


def few(task: Task, split: Split, count: int = FEW) -> list[Batch]:
    return [task.sample(split, i, range(count)) for i in range(len(task.segments(split)))]


def same(a: Batch, b: Batch) -> bool:
    return all(x.equal(y) for x, y in zip(a, b, strict=True))


def test_there_is_a_task():
    assert NAMES


@each_task
@each_split
def test_shapes_types_and_ranges(name: str, split: Split):
    task = task_of(name)
    assert task.data in DATA and task.order in ORDERS
    segments = task.segments(split)
    assert len({segment.name for segment in segments}) == len(segments), "two segments share a name"
    for segment, batch in zip(segments, few(task, split), strict=True):
        assert batch.inputs.shape == (FEW, segment.seq_len)
        assert batch.positions.shape == batch.answers.shape == batch.sources.shape
        assert all(part.dtype == torch.int64 for part in batch)
        for tokens in (batch.inputs, batch.answers):
            assert tokens.min() >= 0 and tokens.max() < task.vocab_size
        assert batch.positions.min() >= 0 and batch.positions.max() < segment.seq_len
        assert all(len(set(row)) == len(row) for row in batch.positions.tolist()), "a position scored twice"


@each_task
@each_split
def test_each_answer_stands_in_its_own_past(name: str, split: Split):
    for batch in few(task_of(name), split):
        assert (batch.sources >= 0).all() and (batch.sources < batch.positions).all()
        asked, held = batch.inputs.gather(1, batch.positions), batch.inputs.gather(1, batch.sources)
        assert asked.equal(held), "the asked key does not stand at its source"
        for row, positions, answers, sources in zip(*(part.tolist() for part in batch), strict=True):
            for position, answer, source in zip(positions, answers, sources, strict=True):
                assert answer in row[source:position]


@each_task
@each_split
def test_the_same_bytes_whatever_the_batch(name: str, split: Split):
    task, again = task_of(name), task_of.__wrapped__(name)
    for i, whole in enumerate(few(task, split)):
        assert same(again.sample(split, i, range(FEW)), whole), "the same config and seed differ"
        parts = [task.sample(split, i, part) for part in (range(1), range(1, 6), range(6, FEW))]
        assert same(Batch(*(torch.cat(p) for p in zip(*parts, strict=True))), whole)
        order = torch.randperm(FEW)
        assert same(task.sample(split, i, order), Batch(*(part[order] for part in whole)))


@each_task
def test_sampling_touches_no_global_generator(name: str):
    state = torch.get_rng_state()
    few(task_of(name), "train")
    assert torch.get_rng_state().equal(state)


@each_task
@each_split
def test_examples_far_away_are_to_be_had(name: str, split: Split):
    task, far = task_of(name), torch.tensor([2**31, 2**40 - 1])
    for i, near in enumerate(few(task, split)):
        rows = {tuple(row) for batch in (near, task.sample(split, i, far)) for row in batch.inputs.tolist()}
        assert len(rows) == FEW + 2


@each_task
def test_train_valid_test_and_seeds_never_meet(name: str):
    rows = [
        tuple(row)
        for seed in (0, 1)
        for split in SPLITS
        for batch in few(task_of(name, seed), split, 100)
        for row in batch.inputs.tolist()
    ]
    assert len(set(rows)) == len(rows)


@each_task
def test_guessing_scores_chance(name: str):
    """Two answers of different rows agree as often as a guess from the task's own law is right."""
    task = task_of(name)
    for i, segment in enumerate(task.segments("test")):
        chance = task.chance(segment)
        answers = task.sample("test", i, range(2)).answers.shape[1]
        batch = task.sample("test", i, range(10_000 // answers))
        counts = batch.answers.flatten().bincount().double()
        total = counts.sum()
        agree = (counts * (counts - 1)).sum() / (total * (total - answers))
        assert agree <= 1.06 * chance, f"{segment.name}: guessing scores {agree:.3g}, more than {chance:.3g}"
        assert chance <= counts.max() / total, f"{segment.name}: no single guess scores {chance:.3g}"


@each_task
def test_coverage_is_a_share_and_everything_is_covered_by_the_whole_past(name: str):
    def all_of(length: int) -> Tensor:
        return torch.ones(length, length, dtype=torch.bool).tril()

    def itself(length: int) -> Tensor:
        return torch.eye(length, dtype=torch.bool)

    task = task_of(name)
    names = [segment.name for segment in task.segments("test")]
    assert coverage(task, "test", all_of, examples=FEW) == dict.fromkeys(names, 1.0)
    assert coverage(task, "test", itself, examples=FEW) == dict.fromkeys(names, 0.0)


@each_task
@each_split
def test_batches_are_the_examples_of_the_task(name: str, split: Split):
    task, stream = task_of(name), BatchStream(task_of(name), split, batch_size=16, block=64)
    plan = stream.plan(0)
    assert len(plan) == len(stream)
    for (segment, batch), (planned, examples) in zip(stream, plan[:FEW], strict=False):
        assert segment == planned and same(batch, task.sample(split, segment, examples))


@each_task
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_same_bytes_on_a_gpu(name: str):
    task = task_of(name)
    for i, batch in enumerate(few(task, "test", 200)):
        there = task.sample("test", i, range(200), device="cuda")
        assert same(Batch(*(part.cpu() for part in there)), batch)
