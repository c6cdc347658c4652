"""Copying, circuits, state tracking and MAD once more: the answers of a row, read off it slowly.

A restatement takes a row's tokens and gives {position: (answer, {group: value})}; it asserts the layout.
"""

from collections import Counter
from itertools import permutations

import numpy as np

Answers = dict[int, tuple[int, dict[str, int]]]


def copy(row: list[int], letters: int = 26) -> Answers:
    dollar, bar, end = letters, letters + 1, letters + 2
    answers, i = {}, 0
    while i < len(row):
        assert row[i] == dollar
        string = []
        while (at := i + 1 + len(string)) < len(row) and row[at] != bar:
            string.append(row[at])
        assert all(0 <= letter < letters for letter in string)
        size = len(string)
        whole = [dollar, *string, bar, *string, end]
        assert row[i : i + len(whole)] == whole[: len(row) - i]
        if i + len(whole) <= len(row):
            for j, answer in enumerate(string):
                answers[i + 1 + size + j] = (answer, {"distance": size})
        i += len(whole)
    return answers


def selective(row: list[int], noise: int, marks: list[int], count: int) -> Answers:
    """marks: what stands at the end; the answers belong to its last `count` places."""
    body, tail = row[: -len(marks)], row[-len(marks) :]
    assert tail == marks
    data = [(place, token) for place, token in enumerate(body) if token != noise]
    assert len(data) == count
    first = len(row) - count
    return {first + j: (token, {"distance": first + j - place}) for j, (place, token) in enumerate(data)}


def selective_copy(row: list[int], vocab_size: int, count: int) -> Answers:
    return selective(row, 0, [vocab_size - 1] * count, count)


def mad_selective_copying(row: list[int], vocab_size: int, count: int) -> Answers:
    blank, copy_token = vocab_size - 2, vocab_size - 1
    assert row[-count - 2] < blank, "the last data token stands right before the copy token"
    return selective(row, blank, [copy_token] + [blank] * count, count)


def induction(row: list[int], vocab_size: int) -> Answers:
    special = vocab_size - 1
    first, last = [i for i, token in enumerate(row) if token == special]
    assert last == len(row) - 1
    return {last: (row[first + 1], {"distance": last - first})}


def parity(row: list[int]) -> Answers:
    *tokens, end = row
    assert end == 2 and set(tokens) <= {0, 1}
    odd = False
    for token in tokens:
        odd = odd != (token == 1)
    return {len(tokens): (int(odd), {})}


def majority(row: list[int]) -> Answers:
    *tokens, end = row
    assert end == 2 and set(tokens) <= {0, 1}
    return {len(tokens): (int(sum(tokens) / len(tokens) > 0.5), {})}


def cum_majority(row: list[int]) -> Answers:
    answers, lead = {}, 0
    for t, token in enumerate(row):
        lead += 1 if token else -1
        answers[t] = (int(lead >= 0), {"tokens": t.bit_length()})  # 1 | 2 | 3-4 | 5-8 | ... tokens
    return answers


def vocab_majority(row: list[int]) -> Answers:
    *tokens, end = row
    assert end == 0 and min(tokens) >= 1
    (winner, most), *others = Counter(tokens).most_common()
    assert all(count < most for _, count in others), "a tie"
    return {len(tokens): (winner, {})}


def elements(name: str) -> list[tuple[int, ...]]:
    """The group's permutations; of Z_m its rotations."""
    kind, n = name[0], int(name[1:])
    if kind == "Z":
        return [tuple((i + shift) % n for i in range(n)) for shift in range(n)]
    everything = list(permutations(range(n)))
    return [p for p in everything if kind == "S" or np.linalg.det(np.eye(n)[list(p)]) > 0]  # the even ones


def word_problem(row: list[int], group: str) -> Answers:
    """Things on places, moved by one element after the other."""
    moves = elements(group)
    things = list(range(len(moves[0])))
    answers = {}
    for t, token in enumerate(row):
        things = [moves[token][thing] for thing in things]
        answers[t] = (moves.index(tuple(things)), {"tokens": t.bit_length()})
    return answers


def flip_flop(row: list[int], depth: int | None = None) -> Answers:
    """depth: with undo, how many earlier bits are kept; None: without."""
    write, read, ignore, undo = 2, 3, 4, 5
    turns = list(zip(row[::2], row[1::2], strict=True))
    assert turns[0][0] == write and turns[-1][0] == read
    history: list[list[int]] = []  # [bit, the turn that last showed it]
    answers: Answers = {}
    for i, (act, bit) in enumerate(turns):
        assert bit in (0, 1)
        if act == write:
            history = [*history, [bit, i]]
            history = history[-(depth or 0) - 1 :]
        elif act == read:
            value, shown = history[-1]
            assert bit == value
            groups = {"distance": 2 * i - (2 * shown + 1)}
            answers[2 * i] = (value, groups | ({} if depth is None else {"depth": len(history) - 1}))
            history[-1][1] = i
        elif act == undo:
            assert depth is not None and len(history) > 1, "an undo that finds nothing"
            history.pop()
        else:
            assert act == ignore
    return answers


def in_context_recall(row: list[int], keys: int, values: int) -> Answers:
    """keys, values: how many of each; above them is noise."""
    answers: Answers = {}
    shown: dict[int, tuple[int, int]] = {}
    for at in range(0, len(row), 2):
        key, value = row[at], row[at + 1]
        if key >= keys + values:
            assert value >= keys + values
            continue
        assert key < keys <= value < keys + values
        if key in shown:
            assert shown[key][0] == value
            answers[at] = (value, {"distance": at - shown[key][1]})
        shown[key] = (value, at)
    assert len(row) - 2 in answers
    return answers


def fuzzy_recall(row: list[int], keys: int, pad: int, shortest_key: int) -> Answers:
    answers: Answers = {}
    shown: dict[tuple[int, ...], tuple[list[int], int]] = {}
    i = 0
    while row[i] == pad:
        i += 1
    while i < len(row):
        start = i
        while i < len(row) and row[i] < keys:
            i += 1
        key, after = tuple(row[start:i]), i
        while i < len(row) and row[i] >= keys:
            assert row[i] != pad
            i += 1
        value = row[after:i]
        assert shortest_key <= len(key) <= 3 and 1 <= len(value) <= 3
        assert len(set(key)) == len(key) and len(set(value)) == len(value)
        if key in shown:
            assert shown[key][0] == value
            for j, token in enumerate(value):
                answers[after + j - 1] = (token, {"distance": start - shown[key][1]})
        shown[key] = (value, start)
    assert len(row) - 2 in answers, "the last pair is one of those before"
    return answers


def compression(row: list[int], vocab_size: int) -> list[int]:
    assert row[-1] == vocab_size - 1 and max(row[:-1]) < vocab_size - 1
    return list(row)


def palindrome(row: list[int], vocab_size: int) -> Answers:
    mark = row.index(vocab_size - 1)
    letters, after = row[:mark], row[mark + 1 :]
    assert mark == len(row) // 2 and after == letters[:0:-1]
    places = [*reversed(range(mark - 1))]
    return {mark + 1 + i: (letters[at], {"distance": mark + 1 + i - at}) for i, at in enumerate(places)}


def stack(row: list[int], stacks: int) -> Answers:
    answers: Answers = {}
    piles: dict[int, list[int]] = {which: [] for which in range(2, 2 + stacks)}  # places of letters
    for at in range(0, len(row), 3):
        act, which, letter = row[at : at + 3]
        if act == 0:
            piles[which].append(at + 2)
        else:
            assert act == 1
            place = piles[which].pop()
            assert letter == row[place] >= 2 + stacks
            answers[at + 1] = (letter, {"distance": at + 1 - place})
    assert row[-6] == 0 and row[-3] == 1
    return answers


def depo(row: list[int], names: int, hops: int, nodes: int) -> Answers:
    edges, questions = row[: 2 * nodes], row[2 * nodes :]
    after = dict(zip(edges[::2], edges[1::2], strict=True))
    cycle = [edges[0]]
    while after[cycle[-1]] != cycle[0]:
        cycle.append(after[cycle[-1]])
    assert len(cycle) == len(after) == nodes and max(cycle) < names
    assert len({*questions[1::4]}) == len(questions) / 4, "no name begins two questions"
    answers: Answers = {}
    for i in range(0, len(questions), 4):
        far, name, mark, answer = questions[i : i + 4]
        assert mark == names + hops and answer == cycle[(cycle.index(name) + far - names + 1) % nodes]
        answers[2 * nodes + i + 2] = (answer, {"hops": far - names + 1})
    return answers


def mano(row: list[int], modulus: int) -> Answers:
    *tokens, mark = row
    assert mark == modulus + 5

    def written(place: int) -> tuple[str, int]:
        if tokens[place] < modulus:
            return str(tokens[place]), place + 1
        left, place_of_right = written(place + 1)
        right, end = written(place_of_right)
        return f"({left}{'+-*'[tokens[place] - modulus]}{right})", end

    text, end = written(0)
    assert end == len(tokens)
    return {end: (eval(text) % modulus, {})}


def brackets(row: list[int], modulus: int) -> Answers:
    *tokens, mark = row
    assert mark == modulus + 5
    text = "".join(str(token) if token < modulus else "+-*()"[token - modulus] for token in tokens)
    return {len(tokens): (eval(text) % modulus, {})}
