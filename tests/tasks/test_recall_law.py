"""Chi-squares of random numbers of the recall tasks that MQAR does not draw."""

from itertools import permutations, product
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor

from tests.tasks.laws import ALPHA, chi2, independent
from tests.tasks.test_recall_rows import pairs, sets, strings, task_with, writes
from zoo.common.counter_rng import stream
from zoo.tasks.base import IGNORED, Batch
from zoo.tasks.context import last_place
from zoo.tasks.sampling import permutation

ROWS = 24_000


def rows(name: str, segment: dict[str, int], count: int = ROWS, **settings: Any) -> Batch:
    return task_with(name, segment, **settings).sample("train", 0, range(count))


def orders(drawn: Tensor) -> Tensor:
    """Return the number of each row among all permutations of 0..n-1."""
    known = {order: i for i, order in enumerate(permutations(range(drawn.shape[1])))}
    return torch.tensor([known[tuple(row)] for row in drawn.tolist()])


def test_a_permutation_is_any_as_often_as_any_other():
    drawn = permutation(stream(3), torch.arange(ROWS), 4)
    assert chi2(orders(drawn), torch.ones(24)) > ALPHA


def test_the_one_question_is_any_pair():
    batch = rows("ar_single", pairs(16, 7))
    queried = (15 - batch.groups["distance"][:, 0]) // 2
    assert chi2(queried, torch.ones(7)) > ALPHA
    assert independent(queried, batch.inputs[:, 0] % 4) > ALPHA


def test_safari_draws_keys_and_values_with_replacement_and_asks_any_key_shown():
    batch = rows("ar_single_safari", pairs(10, 4), vocab_size=7)  # keys 1 2 3, values 4 5 6
    shown = batch.inputs[:, 0:8:2] - 1
    cell = (shown * torch.tensor([27, 9, 3, 1])).sum(1)
    assert chi2(cell, torch.ones(81)) > ALPHA
    first = shown[:, 0] == 0
    both = (first[:, None] & (shown == 1)).any(1)
    value = batch.inputs[:, 1:8:2]
    other = value.gather(1, last_place(shown, torch.ones(len(shown), 1, dtype=torch.long)))[:, 0]
    assert chi2((value[:, 0] * 3 + other)[both] - 16, torch.ones(9)) > ALPHA, "each key's value is its own"
    two = (shown == 0).any(1) & (shown == 1).any(1) & ~(shown == 2).any(1)
    assert chi2(batch.inputs[two, -1] - 1, torch.ones(2)) > ALPHA
    once = two & ((shown == 0).sum(1) == 1)
    assert chi2(batch.inputs[once, -1] - 1, torch.ones(2)) > ALPHA, "not in proportion to how often"


def test_which_keys_are_updated_and_in_which_order_is_uniform():
    batch = rows("mqar_update", pairs(24, 4), num_updates=2)
    keys, again = batch.inputs[:, 0:8:2], batch.inputs[:, 8:12:2]
    which = last_place(keys, again)
    first, second = which.unbind(1)
    assert chi2(first * 3 + second - (second > first).long(), torch.ones(12)) > ALPHA
    assert independent(first, (batch.positions[:, 0] - 12) // 2) > ALPHA


def test_writes_come_in_any_order():
    batch = rows("mqar_overwrite", writes(16, 2, 1))
    written = batch.inputs[:, 0:8:2]
    first = (written == written[:, :1]).long()
    again = first[:, 1:].argmax(1)  # where the first key is written again
    assert chi2(again, torch.ones(3)) > ALPHA
    assert independent(again, (batch.positions[:, 0] - 8) // 2) > ALPHA
    queried = batch.inputs.gather(1, batch.positions)
    assert chi2((queried[:, 0] == written[:, 0]).long(), torch.ones(2)) > ALPHA


@pytest.mark.parametrize(
    ("seq_len", "overwrites", "right"),
    [(32, 1, 0.73), (32, 2, 0.48), (64, 4, 0.28), (96, 8, 0.15), (160, 16, 0.08)],
)
def test_a_convolution_knows_some_old_writes(seq_len: int, overwrites: int, right: float):
    """A write is known to be old where it is the row's first, or its key comes again at once: findings.md."""
    batch = rows("mqar_overwrite", writes(seq_len, 4, overwrites), 4000)
    written = batch.inputs[:, : 8 * (overwrites + 1) : 2]
    old = torch.cat([written[:, 1:] == written[:, :-1], torch.zeros_like(written[:, :1]).bool()], 1)
    old[:, 0] = True
    candidates = (written[:, None] == batch.inputs.gather(1, batch.positions)[..., None]) & ~old[:, None]
    assert abs((1 / candidates.sum(-1)).mean() - right) < 0.008  # the last of a key is never known to be old


def test_combinations_come_in_any_order():
    batch = rows("mqar_compositional", pairs(24, 4))
    first, second = batch.inputs[:, 0:12:3], batch.inputs[:, 1:12:3]
    cell = (first != first.amin(1, keepdim=True)) * 2 + (second != second.amin(1, keepdim=True))
    assert chi2(orders(cell), torch.ones(24)) > ALPHA


def test_as_many_keys_are_unbound_as_expected_whatever_else_is_drawn():
    batch = rows("mqar_unseen", pairs(32, 4), unseen=0.3)
    unbound = batch.groups["binding"]
    count = unbound.sum(1)
    assert chi2(count, stats.binom(4, 0.3).pmf(range(5))) > ALPHA
    assert independent(unbound[:, 1], (batch.positions[:, 1] - 8) // 2 % 8) > ALPHA
    queried = batch.inputs.gather(1, batch.positions)
    assert chi2(queried[unbound == 1] - 1, torch.ones(127)) > ALPHA


def test_as_many_pairs_are_noise_as_expected_and_one_always_stays():
    batch = rows("noisy_ar", pairs(32, 4), noise=0.4)
    real = (batch.answers != IGNORED).sum(1)
    assert chi2(real - 1, stats.binom(3, 0.6).pmf(range(4))) > ALPHA
    alone = rows("noisy_ar", pairs(32, 4), noise=1.0)
    assert chi2((alone.answers != IGNORED).int().argmax(1), torch.ones(4)) > ALPHA
    noise = alone.inputs[:, :8]
    assert chi2(noise[noise >= 256] - 256, torch.ones(16)) > ALPHA
    blank = rows("noisy_ar", pairs(32, 4), 1000, filler="blank")
    spoken = (blank.inputs[:, 8:] != 0).sum(1)
    assert spoken.equal((blank.answers != IGNORED).sum(1)), "the question goes where its pair went"


def test_passes_and_questions_are_ordered_independently():
    batch = rows("mqar_stacked", pairs(9, 3), num_passes=2)
    key = batch.inputs % 128
    first, second, queried = (last_place(key[:, :3], part) for part in key.split(3, dim=1))
    assert (first == torch.arange(3)).all()
    both = orders(second) * 6 + orders(queried)
    assert chi2(both, torch.ones(36)) > ALPHA
    value = batch.inputs[:, :3] // 128 - 1
    assert chi2(value[:, 0] // 8, torch.ones(16)) > ALPHA
    assert chi2(key[:, 0] // 8, torch.ones(16)) > ALPHA


def test_the_common_element_is_any_of_both_sets():
    batch = rows("set_disjoint", sets(11, 3, 5), vocab_size=20)
    first, second = batch.inputs[:, 1:4], batch.inputs[:, 5:10]
    cell = last_place(first, batch.answers) * 5 + last_place(second, batch.answers)
    assert chi2(cell, torch.ones(15)) > ALPHA
    assert chi2(batch.answers - 4, torch.ones(16)) > ALPHA
    pair = (first[:, 0] - 4) * 15 + first[:, 1] - 4 - (first[:, 1] > first[:, 0]).long()
    assert chi2(pair, torch.ones(240)) > ALPHA


def test_a_book_asks_for_any_entry_and_shows_any_two_others():
    batch = rows("phonebook", {"seq_len": 65, "num_entries": 4})
    entries = batch.inputs[:, 1:37].unflatten(1, (4, 9))
    name = entries[:, :, 0] * 256 + entries[:, :, 1]
    shown = torch.stack([batch.inputs[:, i] * 256 + batch.inputs[:, i + 1] for i in (38, 47, 57)], 1)
    which = last_place(name, shown)
    cells = {which: i for i, which in enumerate(permutations(range(4), 3))}
    assert chi2(torch.tensor([cells[tuple(row)] for row in which.tolist()]), torch.ones(24)) > ALPHA
    assert chi2(entries[:, 0, 2] - 7, torch.ones(4)) > ALPHA
    assert chi2(entries[:, 2, 5] - 1, torch.ones(10)) > ALPHA
    assert chi2(entries[:, 1, 0] - 11, torch.ones(64)) > ALPHA
    assert chi2(entries[:, 1, 1] - 75, torch.ones(128)) > ALPHA


def test_strings_are_uniform_among_those_with_an_ngram_to_ask_for():
    """The law is known string by string: of two letters, where half of the strings have none."""
    batch = rows("ngram_ar", strings(13, 4, 5, 1), vocab_size=6, ngram=2)
    marks = (batch.inputs == 3).int().argmax(1)  # the bar behind the string
    assert chi2(marks - 5, torch.ones(2)) > ALPHA, "4 or 5 letters"
    for length in (4, 5):
        chosen = batch.inputs[marks == length + 1]
        weights = []
        for string in product((0, 1), repeat=length):
            grams = [string[i : i + 2] for i in range(length - 1)]
            fit = [i for i in range(length - 2) if grams.count(grams[i]) == 1]
            weights += [1 / len(fit) if i in fit else 0.0 for i in range(length - 2)]
        powers = 2 ** torch.arange(length - 1, -1, -1)
        code = (chosen[:, 1 : length + 1] * powers).sum(1)
        place = torch.zeros_like(code)
        for i in range(length - 2):
            same = (chosen[:, 1 + i : 3 + i] == chosen[:, length + 2 : length + 4]).all(1)
            place = torch.where(same, i, place)
        cell, there = code * (length - 2) + place, torch.tensor(weights) > 0
        assert there[cell].all()
        rank = there.cumsum(0) - 1
        assert chi2(rank[cell], torch.tensor(weights)[there]) > ALPHA


def test_the_questions_of_a_row_are_drawn_apart():
    batch = rows("ngram_ar", strings(40, 5, 5, 2), vocab_size=8)
    first = batch.inputs[:, 1]
    start = (batch.inputs == 4).int()
    second = start.scatter(1, torch.zeros(len(start), 1, dtype=torch.long), 0).argmax(1)
    letter = batch.inputs.gather(1, second[:, None] + 1)[:, 0]
    assert independent(first, letter) > ALPHA
    assert chi2(letter, torch.ones(4)) > ALPHA
