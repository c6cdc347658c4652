"""Interference between values written to one key, counted by hand."""

from dataclasses import replace

import pytest
import torch

from tests.command import refusal
from tests.tasks import made
from zoo.evaluation.interference import Interference, kinds
from zoo.evaluation.trained import Trained
from zoo.tasks.base import SPLITS, Batch
from zoo.tasks.mqar_overwrite import OverwrittenMQAR


def test_answers_are_classified_by_the_age_of_their_write() -> None:
    row = [1, 20, 2, 30, 1, 21, 2, 31, 1, 22, 2, 32, 9, 1, 2, 9]  # keys 1 and 2, three writes each
    batch = Batch(torch.tensor([row] * 5), torch.tensor([[13, 14]] * 5), torch.tensor([[22, 32]] * 5))
    best = torch.tensor([[22, 32], [21, 31], [20, 30], [30, 22], [9, 2]])
    assert kinds(batch, best, pairs=2, writes=3).tolist() == [[0, 0], [1, 1], [2, 2], [3, 3], [4, 4]]


def test_shares_are_those_of_a_count_by_hand(held: Trained) -> None:
    loads = [made.pairs(n, 2) | {"overwrites": more, "num_examples": 40} for n, more in ((16, 0), (24, 2))]
    splits = dict.fromkeys(SPLITS, loads)
    task = made.task(OverwrittenMQAR, {}, vocab_size=24, power_a=1.0, filler="safe", **splits)
    cell = replace(held, task=task)
    table = Interference(split="test").table(cell)
    assert table["kind"].tolist() == ["0", "another", "none", "0", "1", "2", "another", "none"]
    assert table.groupby("slice", sort=False)["share"].sum().tolist() == pytest.approx([1, 1])
    assert table["answers"].tolist() == [80] * 8
    assert table["order_blind"].tolist() == pytest.approx([1, 0, 0, 1 / 3, 1 / 3, 1 / 3, 0, 0])
    batch = task.sample("test", 1, range(40))
    output = cell.answered(batch)[1].view_as(batch.answers).tolist()
    counts = dict.fromkeys(table["kind"][3:], 0)
    for tokens, places, answers in zip(batch.inputs.tolist(), batch.positions.tolist(), output, strict=True):
        for place, answer in zip(places, answers, strict=True):
            written = [tokens[i + 1] for i in range(0, 12, 2) if tokens[i] == tokens[place]]
            values = tokens[1:12:2]
            kind = "another" if answer in values else "none"
            counts[str(written[::-1].index(answer)) if answer in written else kind] += 1
    assert (table["share"][3:] * 80).round().tolist() == list(counts.values())
    assert table["share"][3] == pytest.approx(cell.score(batch).accuracy)


def test_a_task_that_writes_once_is_refused(held: Trained) -> None:
    with refusal("asks for keys written again, and MQAR has none: use task=mqar_over"):
        Interference(split="test").table(held)
