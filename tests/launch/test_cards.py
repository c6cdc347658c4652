"""Workers share the cards: one worker for each card, and each sees its own alone."""

import os
from unittest.mock import Mock

import pytest
import torch

from tests.training.tiny import tiny
from zoo.launch import cards
from zoo.launch.grouping import Group
from zoo.launch.process_pool import Pool
from zoo.launch.sweep import count


@pytest.fixture
def four(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(cards.VISIBLE, raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)


def test_auto_starts_a_worker_for_each_card_or_core(four: None, monkeypatch: pytest.MonkeyPatch):
    gpu, cpu = tiny(trainer="gpu"), tiny()
    assert cards.cards() == ["0", "1", "2", "3"] and count("auto", [cpu, gpu]) == 4
    assert count("auto", [cpu]) == len(os.sched_getaffinity(0))
    monkeypatch.setenv(cards.VISIBLE, "2, MIG-7")
    assert cards.cards() == ["2", "MIG-7"] and count("auto", [gpu]) == 2 and count(3, [gpu]) == 3
    monkeypatch.setenv(cards.VISIBLE, "")
    assert cards.cards() == [] and count("auto", [gpu]) == 1


@pytest.mark.parametrize(
    ("taken", "next_one"),
    [([], "0"), (["0"], "1"), (["0", "1"], "0"), (["0", "1", "0"], "1"), (["1", None], "0")],
)
def test_the_next_worker_gets_the_least_used_card(taken: list[str | None], next_one: str):
    assert cards.least_used(["0", "1"], taken) == next_one
    assert cards.least_used([], taken) is None


def test_each_worker_gets_a_card_and_frees_it_when_it_ends(four: None):
    context = Mock(Pipe=lambda duplex: (Mock(), Mock()))  # it starts no process
    pool = Pool(context, 4, Mock())
    pool.cards = cards.cards()
    for seed in range(4):
        pool._start(Group((tiny(trainer="gpu", seed=seed),)))
    del pool.running[list(pool.running)[2]]
    for cell in (tiny(trainer="gpu", seed=5), tiny(seed=6)):
        pool._start(Group((cell,)))
    given = [call.kwargs["args"][3] for call in context.Process.call_args_list]
    assert given == ["0", "1", "2", "3", "2", None]


def test_a_worker_sees_only_its_card(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(cards.VISIBLE, "0,1")
    cards.see_only(None)
    assert os.environ[cards.VISIBLE] == "0,1"
    cards.see_only("1")
    assert os.environ[cards.VISIBLE] == "1"
