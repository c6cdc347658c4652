"""RegBench: its rows are walks of its automata, and it asks where a string of the row leaves one answer."""

from itertools import islice

import torch

from tests.tasks.laws import ALPHA, chi2
from tests.tasks.made import rows, task
from zoo.tasks.base import IGNORED
from zoo.tasks.regbench import RegBench

SETTINGS = {"states": 6, "letters": 7, "ways": 3}
ROWS = 60


def test_rows_are_walks_and_ask_where_an_earlier_string_leaves_one_answer():
    made = task(RegBench, {"seq_len": 80, "longest": 9}, **SETTINGS)
    path, examples = (0, 0, 0, 80, 9, 0), torch.arange(ROWS)
    first = (made._walked(made.loads("train")[0], path, examples)[1] != IGNORED).any(1)  # not drawn again
    assert first.sum() > ROWS / 2
    batch = made.sample("train", 0, range(ROWS))
    edges, letter, target = (part.tolist() for part in made._automata(path, examples))
    oracle = made.oracle(batch.inputs, batch.positions)
    for b in first.nonzero()[:, 0].tolist():
        ways = [zip(letter[b][3 * s :], target[b][3 * s :], strict=True) for s in range(6)]
        automaton = [dict(islice(way, n)) for way, n in zip(ways, edges[b], strict=True)]
        state, string, last = 0, (), {}
        for t, token in enumerate(batch.inputs[b].tolist()):
            one = token != 7 and len(automaton[state]) == 1 and (*string, token) in last
            if t > 0:
                assert batch.answers[b, t - 1] == (token if one else IGNORED)
            if one:
                assert oracle[b, t - 1] == token
                assert batch.groups["distance"][b, t - 1] == t - 1 - last[*string, token]
            if token == 7:
                assert 1 <= len(string) <= 9
                state, string = 0, ()
            else:
                state, string = automaton[state][token], (*string, token)
                last[string] = t


def test_edges_of_a_state_differ_in_letter_and_state_and_none_leads_back():
    made = task(RegBench, {"seq_len": 30, "longest": 5}, **SETTINGS)
    edges, letter, target = made._automata((3,), torch.arange(4000))
    assert chi2(edges - 1, torch.ones(3)) > ALPHA
    for numbers in (letter, target):
        ordered = numbers.view(-1, 3).sort(-1).values
        assert (ordered.diff(dim=-1) > 0).all()
    state = torch.arange(6).repeat_interleave(3)
    assert (target != state).all()
    assert chi2(letter[:, 0], torch.ones(7)) > ALPHA


def test_a_row_that_would_ask_nothing_is_drawn_again_and_depends_on_itself_alone():
    load = {"seq_len": 13, "longest": 5}
    batch = rows(RegBench, load, 200, **SETTINGS)
    assert (batch.answers != IGNORED).any(1).all()
    made = task(RegBench, load, **SETTINGS)
    answers = made._walked(made.loads("train")[0], (0, 0, 0, 13, 5, 0), torch.arange(200))[1]
    silent = (answers == IGNORED).all(1)
    assert silent.float().mean() > 0.3
    for example in silent.nonzero()[:20, 0].tolist():
        assert made.sample("train", 0, range(example, example + 1)).inputs.equal(batch.inputs[[example]])
