"""Batches of training: orders, freshness, resuming, blocks that change nothing, every next token.

tests/training/test_resuming.py resumes whole trainings in the middle of an epoch.
"""

from collections import Counter
from itertools import islice

import pytest
import torch

from tests.registry import composer
from tests.tasks.laws import mqar
from zoo.launch.run_cell import who
from zoo.tasks.base import IGNORED, SPLITS, Task
from zoo.tasks.batches import BatchStream
from zoo.tasks.build import build_task
from zoo.tasks.mqar import Pairs
from zoo.training.check import check

TRAIN = [(16, 4, 40), (8, 2, 20), (12, 2, 7)]


def task(data: str = "stream", order: str = "interleaved", seed: int = 0) -> Task:
    train = [Pairs(seq_len=length, num_kv_pairs=n, num_examples=count) for length, n, count in TRAIN]
    settings = {"vocab_size": 64, "filler": "safe", "data": data, "order": order, "seed": seed}
    return mqar(16, 4, **settings, **dict.fromkeys(SPLITS, train))


def listed(stream: BatchStream) -> list[tuple[int, list[list[int]]]]:
    return [(segment, batch.inputs.tolist()) for segment, batch in stream]


def epochs(stream: BatchStream, count: int) -> list[list[tuple[int, list[list[int]]]]]:
    return [listed(stream) for _ in range(count)]


@pytest.mark.parametrize(
    ("split", "segment", "examples", "message"),
    [
        ("tst", 0, range(2), "split .='tst'. must be one of train, valid, test"),
        ("test", 3, range(2), "segment .=3. must be from 0 to 2: test has 3"),
        ("test", -1, range(2), "segment .=-1. must be from 0"),
        ("test", 0, range(-1, 2), "an example .=-1. must be at least 0"),
        ("test", 0, range(2, -2, -1), "an example .=-1. must be at least 0"),
    ],
)
def test_rows_that_are_not_there_are_refused(split, segment, examples, message):
    assert task().sample("test", 2, [1, 0]).inputs.equal(task().sample("test", 2, range(2)).inputs.flip(0))
    with pytest.raises(ValueError, match=message):
        task().sample(split, segment, examples)


@pytest.mark.parametrize("data", ["fixed", "stream"])
@pytest.mark.parametrize("order", ["sequential", "shuffled", "interleaved"])
def test_the_block_size_never_changes_a_byte(data: str, order: str):
    plain, *others = (epochs(BatchStream(task(data, order), "train", 4, block=b), 3) for b in (1, 9, 4096))
    assert all(other == plain for other in others)


def test_a_fixed_epoch_is_every_example_once_with_a_short_last_batch():
    stream = BatchStream(task("fixed", "sequential"), "train", 8)
    assert len(stream) == 5 + 3 + 1
    assert [(s, len(b.inputs)) for s, b in stream] == [(0, 8)] * 5 + [(1, 8), (1, 8), (1, 4), (2, 7)]
    first, second = epochs(BatchStream(task("fixed", "sequential"), "train", 8), 2)
    assert first == second
    assert first[0][1] == task().sample("train", 0, range(8)).inputs.tolist()


def test_a_stream_is_always_full_and_never_repeats():
    times: Counter[tuple[int, int]] = Counter()
    stream = BatchStream(task("stream"), "train", 8)
    for epoch in range(4):
        assert [len(examples) for _, examples in stream.plan(epoch)] == [8] * len(stream)
        times.update((segment, i) for segment, examples in stream.plan(epoch) for i in examples)
    assert set(times.values()) == {1}
    assert {i for segment, i in times if segment == 0} == set(range(4 * 40))


def test_interleaving_is_a_round_robin_in_proportion_and_the_same_each_epoch():
    stream = BatchStream(task(order="interleaved"), "train", 4)
    order = [segment for segment, _ in stream.plan(0)]
    assert order == [segment for segment, _ in stream.plan(7)]
    for segment, count in enumerate((10, 5, 2)):
        for done in range(1, len(order) + 1):
            assert abs(order[:done].count(segment) - done * count / len(order)) < 1.5
    assert order[:3] == [0, 1, 0]


def test_shuffling_permutes_the_batches_by_seed_and_epoch():
    def plan(seed: int, epoch: int) -> list[tuple[int, range]]:
        return BatchStream(task("fixed", "shuffled", seed), "train", 2).plan(epoch)

    def as_set(plan: list[tuple[int, range]]) -> set[tuple[int, int]]:
        return {(segment, examples.start) for segment, examples in plan}

    assert plan(0, 0) == plan(0, 0)
    assert as_set(plan(0, 0)) == as_set(plan(0, 1)) == as_set(plan(1, 0))
    assert len({str(plan(seed, epoch)) for seed in (0, 1) for epoch in (0, 1, 2)}) == 6


def test_shuffled_first_places_are_uniform():
    plans = [BatchStream(task("fixed", "shuffled", seed), "train", 4).plan(0)[0][0] for seed in range(1700)]
    counts = Counter(plans)
    assert [counts[s] / 100 for s in range(3)] == pytest.approx([10, 5, 2], rel=0.2)


@pytest.mark.parametrize("split", ["valid", "test"])
def test_evaluation_is_every_example_in_order_each_time(split: str):
    stream = BatchStream(task(order="shuffled"), split, 16)  # type: ignore[arg-type]
    whole = listed(stream)
    assert [(s, len(rows)) for s, rows in whole] == [(0, 16), (0, 16), (0, 8), (1, 16), (1, 4), (2, 7)]
    next(iter(stream))  # a look that is broken off, as Lightning's sanity check is
    assert listed(stream) == whole


@pytest.mark.parametrize("order", ["sequential", "shuffled", "interleaved"])
def test_resuming_at_any_batch_goes_on_as_if_nothing_had_happened(order: str):
    def fresh() -> BatchStream:
        return BatchStream(task("stream", order), "train", 4)

    straight = [batch for epoch in epochs(fresh(), 3) for batch in epoch]
    for cut in (*range(0, len(straight), 5), 16, 17, 18, 34, 50):
        before, after = fresh(), fresh()
        while before.epoch * len(before) + before.batch < cut:
            left = cut - before.epoch * len(before) - before.batch
            for _ in islice(before, min(left, len(before))):
                pass
        after.load_state_dict(before.state_dict())
        rest = []
        while len(rest) < len(straight) - cut:
            rest += listed(after)
        assert rest == straight[cut:], f"cut after {cut} batches"


def test_set_epoch_starts_another_epoch_and_stays_in_this_one():
    stream, straight = BatchStream(task(), "train", 4), epochs(BatchStream(task(), "train", 4), 3)
    for _ in islice(stream, 5):
        pass
    stream.set_epoch(0)
    assert listed(stream) == straight[0][5:]
    stream.set_epoch(2)
    assert listed(stream) == straight[2]


def test_a_batch_size_of_zero_is_refused():
    with pytest.raises(ValueError, match=r"batch_size \(=0\) must be at least 1"):
        BatchStream(task(), "train", 0)


COMPOSER = composer()


@pytest.mark.parametrize("task", ["mqar", "copy", "mad_in_context_recall", "induction"])
def test_a_training_row_asks_for_every_next_token_and_for_the_answers(task: str) -> None:
    answers_task, all_task = (
        build_task(COMPOSER.cell([f"task={task}", f"loss={loss}"]).config) for loss in ("answers", "all")
    )
    usual_batch, batch = (each.sample("train", 0, range(5)) for each in (answers_task, all_task))
    assert torch.equal(batch.inputs, usual_batch.inputs) and not batch.groups
    for tokens, row in enumerate(zip(batch.inputs, usual_batch.positions, usual_batch.answers, strict=True)):
        inputs, positions, answers = (part.tolist() for part in row)
        wanted = [*inputs[1:], IGNORED]
        for place, answer in zip(positions, answers, strict=True):
            wanted[place] = wanted[place] if answer == IGNORED else answer
        assert batch.answers[tokens].tolist() == wanted
        assert batch.positions[tokens].tolist() == list(range(len(inputs)))
    for split in ("valid", "test"):
        pairs = zip(answers_task.sample(split, 0, range(3)), all_task.sample(split, 0, range(3)), strict=True)
        assert all(torch.equal(a, b) for a, b in list(pairs)[:3])


WHY = {"mqar_stacked": "two tokens side by side", "mad_compression": "decoder", "text": "learned so already"}


@pytest.mark.parametrize("task", WHY)
def test_a_task_without_next_tokens_refuses(task: str) -> None:
    with pytest.raises(ValueError, match=f"loss .=all. asks for every next token, and .*{WHY[task]}.*: use"):
        check(COMPOSER.cell([f"task={task}", "loss=all"]))


def test_loss_all_is_another_cell_and_the_record_names_it() -> None:
    plain, explicit, other = (COMPOSER.cell(words) for words in ([], ["loss=answers"], ["loss=all"]))
    assert plain.run_id == explicit.run_id and other.run_id != plain.run_id and other.point != plain.point
    assert "loss" not in who(plain)["task_settings"] and "loss" in who(other)["task_settings"]
