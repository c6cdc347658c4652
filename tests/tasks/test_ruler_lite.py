"""ruler_lite, beyond the laws of all tasks: one answer at every length, and the language of its essays."""

from typing import Any

import pytest
import torch

from tests.tasks.laws import ALPHA, chi2
from zoo.tasks.base import SPLITS
from zoo.tasks.ruler.draws import Draws
from zoo.tasks.ruler.haystacks import STAY, TOPIC, Essay
from zoo.tasks.ruler.oracle import answer
from zoo.tasks.ruler.questions import GROUPS, QUESTIONS, Common, Frequent, group_means
from zoo.tasks.ruler.tokens import AND, ANS, BOS, IS, NEEDLE, QUERY, VAR, WORDS
from zoo.tasks.ruler_lite import DEPTHS, RulerLite


def task(lengths: list[int], subtasks: list[str]) -> RulerLite:
    return ruler([{"seq_len": length, "num_examples": 9} for length in lengths], subtasks)


def ruler(entries: list[dict[str, Any]], subtasks: list[str]) -> RulerLite:
    mixture = {"data": "stream", "order": "interleaved"} | dict.fromkeys(SPLITS, entries)
    return RulerLite(seed=0, subtasks=subtasks, **mixture)


@pytest.mark.parametrize("name", QUESTIONS)
def test_rows_from_the_shortest_on_have_their_length_and_one_answer(name: str) -> None:
    shortest = QUESTIONS[name].around + QUESTIONS[name].least
    lengths = [shortest, shortest + 1, 157, 640]
    held = task(lengths, [name])
    for i, length in enumerate(lengths):
        batch = held.sample("test", i, range(9))
        assert batch.inputs.shape == (9, length) and (batch.inputs[:, 0] == BOS).all()
        assert ((batch.inputs == QUERY).sum(1) == 1).all() and ((batch.inputs == ANS).sum(1) == 1).all()
        for row, right in zip(batch.inputs.tolist(), batch.answers.tolist(), strict=True):
            assert answer(row[: row.index(ANS) + 1]) == right
    with pytest.raises(ValueError, match=rf"too short for {name}: use at least {shortest}, or leave"):
        task([shortest - 1], [name])


@pytest.mark.parametrize("size", [53, 56, 73, 100, 500, 4000])
def test_lists_have_one_order_of_their_words(size: int) -> None:
    ranks = Frequent().copies(size)
    assert sum(ranks) == size and ranks[1] > ranks[2] > ranks[3] > (ranks[4:] or [0])[0]
    assert ranks[0] > ranks[1]
    often, seldom = Common().copies(size)
    others = size - 10 * often
    assert often > 2 * seldom and 0 < others <= seldom * (len(WORDS) - 10)


def test_the_text_is_a_chain_whose_words_are_zipf_distributed() -> None:
    """The law of a word is exact at any place, and topics last as long as STAY."""
    essay = Essay(3)
    text = essay.text(Draws((7,), torch.arange(40_000)), 20)
    rank = torch.empty(len(WORDS), dtype=torch.long)
    weights = essay.ends.diff(prepend=essay.ends.new_zeros(1))
    rank[essay.words - WORDS.start] = torch.arange(len(WORDS))
    for place in (0, 19):
        assert chi2(rank[text[:, place] - WORDS.start], weights) > ALPHA
    topics = rank[text - WORDS.start] // TOPIC
    shares = essay.topics[1].double() / essay.ends[-1]
    same = (topics[:, 1:] == topics[:, :-1]).double().mean().item()
    assert abs(same - (1 - 1 / STAY + (shares**2).sum().item() / STAY)) < 0.003
    assert (weights.sort(descending=True).values[:3].double() / weights.max()).tolist() == pytest.approx(
        [1, 1 / 2, 1 / 3], abs=1e-3
    )


def test_depth_is_where_the_needle_stands_and_each_is_as_frequent() -> None:
    held = task([333], ["single_2", "multikey_2", "vt", "cwe"])
    single, many, chain, listed = (held.sample("test", i, range(900)) for i in range(4))
    assert chi2(single.groups["depth"][:, 0], [1.0] * 10) > ALPHA
    assert set(listed.groups["depth"].flatten().tolist()) == {DEPTHS.index("spread")}
    for batch, sign in ((single, NEEDLE), (many, NEEDLE), (chain, VAR)):
        depths = batch.groups["depth"][:, 0].tolist()
        for row, answers, depth in zip(batch.inputs.tolist(), batch.answers.tolist(), depths, strict=True):
            query = row.index(QUERY)
            value = answers[: answers.index(AND)] if AND in answers else answers[:-1]
            places = range(1, query - len(value))
            at = next(t for t in places if row[t] in (IS, VAR) and row[t + 1 : t + 1 + len(value)] == value)
            start = at - row[at::-1].index(sign)
            assert depth == 10 * (start - 1) // (query - 1)


def test_the_average_is_of_the_eleven_and_not_of_the_groups() -> None:
    scores = dict(zip(QUESTIONS, [1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.4, 0.9, 0.1, 0.0], strict=True))
    means = group_means(scores)
    hand = [0.8, 0.4, 0.3, 0.9, 0.05, 5.2 / 11]
    assert means == pytest.approx(dict(zip(GROUPS, hand, strict=True)))
    with pytest.raises(ValueError, match="no score of vt"):
        group_means({name: score for name, score in scores.items() if name != "vt"})


def test_a_length_is_of_every_subtask_or_of_the_one_it_names() -> None:
    entries = [{"seq_len": 128, "num_examples": 5}, {"seq_len": 64, "subtask": "vt", "num_examples": 7}]
    held = ruler(entries, ["cwe", "fwe"])
    names = {segment.name: segment.num_examples for segment in held.segments("train")}
    loads = ("seq_len=128,subtask=cwe", "seq_len=128,subtask=fwe", "seq_len=64,subtask=vt")
    assert [*names.items()] == [*zip(loads, (5, 5, 7), strict=True)]
    with pytest.raises(ValueError, match=r"task.subtasks \(='niah'\) must be one of single_1, "):
        task([128], ["niah"])
