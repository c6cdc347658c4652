"""Laws every task obeys.  No task is named: a new conf/task/*.yaml is tested on arrival."""

from functools import cache
from operator import itemgetter

import pytest
import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf
from torch import Tensor

from zoo.config.paths import CONF
from zoo.tasks.base import DATA, IGNORED, ORDERS, SPLITS, Batch, Split, Task, concatenated, joined, sources
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
    groups = [x.equal(b.groups[name]) for name, x in a.groups.items()]
    return all(x.equal(y) for x, y in zip(a.tensors, b.tensors, strict=True)) and all(groups)


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
        assert batch.groups.keys() == task.groups.keys()
        assert {batch.positions.shape} == {part.shape for part in (batch.answers, *batch.groups.values())}
        assert all(part.dtype == torch.int64 for part in (*batch.tensors, *batch.groups.values()))
        for tokens in (batch.inputs, batch.answers[batch.answers != IGNORED]):
            assert tokens.min() >= 0 and tokens.max() < task.vocab_size
        assert batch.positions.min() >= 0 and batch.positions.max() < segment.seq_len
        for row in batch.positions.tolist():
            assert len(set(row)) == (1 if task.decoder else len(row)), "a position scored twice"


@each_task
@each_split
def test_each_answer_stands_in_its_own_past(name: str, split: Split):
    for batch in few(task_of(name), split):
        places = sources(task_of(name), batch)
        if places is None:
            return
        unasked = batch.answers == IGNORED
        assert (((places >= 0) & (places < batch.positions)) | unasked).all()
        parts = (*batch.tensors, places)
        for row, positions, answers, starts in zip(*(part.tolist() for part in parts), strict=True):
            for position, answer, start in zip(positions, answers, starts, strict=True):
                assert answer == IGNORED or answer in row[start:position]


@each_task
@each_split
def test_an_oracle_is_right_and_sees_nothing_after_a_position(name: str, split: Split):
    task = task_of(name)
    for batch in few(task, split):
        if task.kind == "text":  # what is written is its own oracle: each answer is the token that follows
            assert batch.answers[:, :-1].equal(batch.inputs[:, 1:]) and (batch.positions.diff() == 1).all()
            continue
        asked = batch.answers != IGNORED
        assert asked.any(dim=1).all(), "a row that asks nothing"
        for column in {0, asked.shape[1] // 2, asked.shape[1] - 1}:
            later = torch.arange(batch.inputs.shape[1]) > batch.positions[:, [column]]
            inputs = batch.inputs.where(~later, torch.randint(task.vocab_size, batch.inputs.shape))
            right = task.oracle(inputs, batch.positions)[:, column] == batch.answers[:, column]
            assert (right | ~asked[:, column]).all()


@each_task
@each_split
def test_the_same_bytes_whatever_the_batch(name: str, split: Split):
    task, again = task_of(name), task_of.__wrapped__(name)
    for i, whole in enumerate(few(task, split)):
        assert same(again.sample(split, i, range(FEW)), whole), "the same config and seed differ"
        parts = [task.sample(split, i, part) for part in (range(1), range(1, 6), range(6, FEW))]
        assert same(concatenated(parts), whole)
        order = torch.randperm(FEW)
        assert same(task.sample(split, i, order), joined(itemgetter(order), whole))


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
        asked = (task.sample("test", i, range(100)).answers != IGNORED).sum() / 100
        rows = min(int(10_000 / asked), 2**22 // segment.seq_len)
        answers = task.sample("test", i, range(rows)).answers
        row, _ = (answers != IGNORED).nonzero(as_tuple=True)
        said = answers[answers != IGNORED]
        counts = said.bincount().double()
        in_row = (row * task.vocab_size + said).unique(return_counts=True)[1].double()
        pairs = len(said) ** 2 - row.bincount().double().square().sum()
        agree = (counts.square().sum() - in_row.square().sum()) / pairs
        most = counts.max() / len(said)
        assert agree <= 1.06 * chance, f"{segment.name}: guessing scores {agree:.3g}, more than {chance:.3g}"
        assert chance <= 1.06 * most, f"{segment.name}: no single guess scores {chance:.3g}"


@each_task
def test_coverage_is_a_share_and_everything_is_covered_by_the_whole_past(name: str):
    def all_of(length: int) -> Tensor:
        return torch.ones(length, length, dtype=torch.bool).tril()

    def itself(length: int) -> Tensor:
        return torch.eye(length, dtype=torch.bool)

    task = task_of(name)
    longest = max(segment.seq_len for segment in task.segments("test"))
    if longest > 8192 or coverage(task, "test", all_of, examples=1) is None:  # a view is of longest ** 2
        return
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
        assert same(joined(Tensor.cpu, there), batch)
