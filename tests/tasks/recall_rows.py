"""Check rows of the recall tasks, in plain Python that knows the definitions and none of the code.

A reader gets a row's tokens, its queries, as (position, answer, groups), and the settings.
"""

import math
import re
from collections.abc import Callable
from typing import Any

Row = list[int]
Queries = list[tuple[int, int, dict[str, int]]]


def distinct(tokens: Row, low: int, high: int) -> None:
    """Assert that the tokens are all different, from low to high - 1."""
    assert len(set(tokens)) == len(tokens), "not distinct"
    assert all(low <= token < high for token in tokens), f"not in {low}..{high - 1}"


def safe(row: Row, places: set[int], bound: set[int]) -> None:
    """Assert that no filler, which is what stands outside of `places`, is one of the bound tokens."""
    assert not bound & {token for place, token in enumerate(row) if place not in places}


def ar_single(row: Row, queries: Queries, *, num_kv_pairs: int, vocab_size: int, **_: Any) -> None:
    n, half = num_kv_pairs, (vocab_size + 1) // 2
    keys, values = row[0 : 2 * n : 2], row[1 : 2 * n : 2]
    distinct(keys, 1, half)
    distinct(values, half, vocab_size)
    [(position, answer, groups)] = queries
    assert position == len(row) - 1
    pair = keys.index(row[position])
    assert answer == values[pair]
    assert groups == {"distance": position - 2 * pair, "depth": 10 * pair // n}
    safe(row, {*range(2 * n), position}, {*keys, *values})


def ar_single_safari(row: Row, queries: Queries, *, num_kv_pairs: int, vocab_size: int, **_: Any) -> None:
    half = (vocab_size + 1) // 2
    pairs = [(row[i], row[i + 1]) for i in range(0, 2 * num_kv_pairs, 2)]
    assert all(1 <= key < half <= value < vocab_size for key, value in pairs)
    bound = dict(pairs)
    assert len(bound) == len(set(pairs)), "a key with two values"
    assert len(row) == 2 * num_kv_pairs + 2 and row[-2] == 0
    [(position, answer, groups)] = queries
    assert position == len(row) - 1 and answer == bound[row[-1]]
    last = max(i for i, (key, _) in enumerate(pairs) if key == row[-1])
    assert groups == {"distance": position - 2 * last, "depth": 10 * last // num_kv_pairs}


def mqar(
    row: Row,
    queries: Queries,
    *,
    num_kv_pairs: int,
    vocab_size: int,
    num_passes: int = 1,
    apart: int = 1,
    num_keys: int | None = None,
    filler: str,
    **_: Any,
) -> None:
    width = apart + 1
    shown = width * num_kv_pairs
    context = shown * num_passes
    keys, values = row[0:shown:width], row[apart:shown:width]
    first = vocab_size // 2 if num_keys is None else num_keys + 1
    distinct(keys, 1, first)
    distinct(values, first, vocab_size)
    assert row[:context] == row[:shown] * num_passes
    assert sorted(row[position] for position, *_ in queries) == sorted(keys), "each key is asked for once"
    for position, answer, groups in queries:
        assert context <= position <= len(row) - 2 and (position - context) % 2 == 0
        pair = keys.index(row[position])
        assert answer == values[pair]
        assert groups == {"distance": position - (context - shown + width * pair)}
    if filler == "safe":
        bound = {place for start in range(0, context, width) for place in (start, start + apart)}
        safe(row, bound | {position for position, *_ in queries}, {*keys, *values})


mqar_apart = mqar_keys = mqar


def mqar_update(
    row: Row, queries: Queries, *, num_kv_pairs: int, vocab_size: int, num_updates: int, **_: Any
) -> None:
    n, shown = num_kv_pairs, num_kv_pairs + num_updates
    keys = rewritten(row, queries, shown, vocab_size, lambda write: {"binding": int(write >= n)})
    distinct(keys[:n], 1, vocab_size // 2)
    assert len(set(keys[n:])) == num_updates and set(keys[n:]) <= set(keys[:n])


def mqar_overwrite(
    row: Row, queries: Queries, *, num_kv_pairs: int, overwrites: int, vocab_size: int, **_: Any
) -> None:
    keys = rewritten(row, queries, num_kv_pairs * (overwrites + 1), vocab_size, lambda write: {})
    assert sorted(keys) == sorted([*set(keys)] * (overwrites + 1)) and len(set(keys)) == num_kv_pairs


def rewritten(
    row: Row, queries: Queries, shown: int, vocab_size: int, more: Callable[[int], dict[str, int]]
) -> Row:
    """Check that each key is asked for its latest value; return the keys of all writes.

    shown: the number of writes.  more: the groups of a write beside distance and depth.
    """
    keys, values = row[0 : 2 * shown : 2], row[1 : 2 * shown : 2]
    unique = sorted(set(keys))
    distinct(unique, 1, vocab_size // 2)
    distinct(values, vocab_size // 2, vocab_size)
    assert sorted(row[position] for position, *_ in queries) == unique, "each key is asked for once"
    for position, answer, groups in queries:
        assert position >= 2 * shown and position % 2 == 0
        write = max(i for i, key in enumerate(keys) if key == row[position])
        assert answer == values[write]
        assert groups == {"distance": position - 2 * write, "depth": 10 * write // shown, **more(write)}
    safe(row, {*range(2 * shown), *(position for position, *_ in queries)}, {*keys, *values})
    return keys


def mqar_compositional(row: Row, queries: Queries, *, num_kv_pairs: int, vocab_size: int, **_: Any) -> None:
    n, third, side = num_kv_pairs, vocab_size // 3, math.isqrt(num_kv_pairs)
    firsts, seconds, values = (row[part : 3 * n : 3] for part in range(3))
    distinct(sorted(set(firsts)), 1, third)
    distinct(sorted(set(seconds)), third, 2 * third)
    distinct(values, 2 * third, vocab_size)
    assert len(set(firsts)) == len(set(seconds)) == side
    pairs = list(zip(firsts, seconds, strict=True))
    assert len(set(pairs)) == n, "a combination twice"
    assert sorted((row[p - 1], row[p]) for p, *_ in queries) == sorted(pairs), "each is asked for once"
    for position, answer, groups in queries:
        pair = pairs.index((row[position - 1], row[position]))
        assert position > 3 * n and (position - 3 * n) % 3 == 1
        assert answer == values[pair]
        assert groups == {"distance": position - 3 * pair - 1, "depth": 10 * pair // n}
    places = {*range(3 * n), *(p - i for p, *_ in queries for i in (0, 1))}
    safe(row, places, {*firsts, *seconds, *values})


def mqar_unseen(row: Row, queries: Queries, *, num_kv_pairs: int, vocab_size: int, **_: Any) -> None:
    n, none = num_kv_pairs, vocab_size - 1
    keys, values = row[0 : 2 * n : 2], row[1 : 2 * n : 2]
    distinct(keys, 1, none // 2)
    distinct(values, none // 2, none)
    distinct([row[position] for position, *_ in queries], 1, none // 2)
    assert len(queries) == n
    for j, (position, answer, groups) in enumerate(queries):
        assert position >= 2 * n and position % 2 == 0
        if row[position] in keys:
            assert row[position] == keys[j] and answer == values[j]
            assert groups == {"distance": position - 2 * j, "depth": 10 * j // n, "binding": 0}
        else:
            assert answer == none and row[position] not in row[:position]
            assert groups == {"distance": position, "depth": 0, "binding": 1}
    safe(row, {*range(2 * n), *(position for position, *_ in queries)}, {*keys, *values, none})


def noisy_ar(
    row: Row, queries: Queries, *, num_kv_pairs: int, vocab_size: int, noise_tokens: int, **_: Any
) -> None:
    n, words = num_kv_pairs, vocab_size - noise_tokens
    pairs = [(row[i], row[i + 1]) for i in range(0, 2 * n, 2)]
    bound = {i: pair for i, pair in enumerate(pairs) if pair[0] < words}
    assert all(words <= token < vocab_size for i in range(n) if i not in bound for token in pairs[i])
    distinct([key for key, _ in bound.values()], 1, words // 2)
    distinct([value for _, value in bound.values()], words // 2, words)
    assert len(queries) == len(bound) > 0, "every pair that was kept is asked for, and no other"
    for (i, (key, value)), (position, answer, groups) in zip(bound.items(), queries, strict=True):
        assert position >= 2 * n and position % 2 == 0
        assert row[position] == key and answer == value
        assert groups == {"distance": position - 2 * i, "depth": 10 * i // n}
    places = {*range(2 * n), *(position for position, *_ in queries)}
    safe(row, places, {token for pair in bound.values() for token in pair} | {*range(words, vocab_size)})


def mqar_stacked(
    row: Row, queries: Queries, *, num_kv_pairs: int, vocab_size: int, num_passes: int, **_: Any
) -> None:
    n, half = num_kv_pairs, vocab_size // 2
    shown = [(token % half, token // half - 1) for token in row[: n * num_passes]]
    bound = dict(shown[:n])
    distinct(list(bound), 0, half)
    distinct(list(bound.values()), 0, half)
    for turn in range(num_passes):
        assert dict(shown[n * turn : n * (turn + 1)]) == bound and len(bound) == n
    assert sorted(row[n * num_passes :]) == sorted(bound), "each key is asked for once"
    assert sorted(position for position, *_ in queries) == list(range(n * num_passes, len(row)))
    for position, answer, groups in queries:
        assert answer == bound[row[position]]
        last = max(i for i, (key, _) in enumerate(shown) if key == row[position])
        assert groups == {"distance": position - last, "depth": 10 * (last % n) // n}


def set_disjoint(
    row: Row, queries: Queries, *, first_set: int, second_set: int, vocab_size: int, num_passes: int, **_: Any
) -> None:
    once = 2 + first_set + second_set
    assert row == row[:once] * num_passes + [3]
    first, second = row[1 : 1 + first_set], row[2 + first_set : once]
    assert row[0] == 1 and row[1 + first_set] == 2
    distinct(first, 4, vocab_size)
    distinct(second, 4, vocab_size)
    [common] = set(first) & set(second)
    [(position, answer, groups)] = queries
    assert position == len(row) - 1 and answer == common
    source = once * (num_passes - 1) + 1 + first.index(common)
    assert groups == {"distance": position - source, "depth": 10 * first.index(common) // first_set}


def phonebook(row: Row, queries: Queries, *, num_entries: int, vocab_size: int, **_: Any) -> None:
    n, firsts = num_entries, (vocab_size - 11) // 3
    assert [row[i] for i in (0, 9 * n + 1, 9 * n + 20)] == [0, 0, 0] and row.count(0) == 3
    entries = [row[i : i + 9] for i in range(1, 9 * n, 9)]
    names = [tuple(entry[:2]) for entry in entries]
    assert len(set(names)) == n and len(row) == 9 * n + 29
    for first, last, digit, *digits in entries:
        assert 11 <= first < 11 + firsts <= last < vocab_size
        assert 7 <= digit <= 10 and all(1 <= d <= 10 for d in digits)
    again = [row[9 * n + 2 :][:9], row[9 * n + 11 :][:9]]
    question = [*row[9 * n + 21 :], queries[-1][1]]
    assert all(entry in entries for entry in [*again, question])
    assert len({tuple(entry) for entry in [*again, question]}) == 3
    entry = entries.index(question)
    for i, (position, answer, groups) in enumerate(queries):
        assert position == 9 * n + 22 + i and answer == question[2 + i]
        distance = position - (1 + 9 * entry + 1 + i)
        assert groups == {"distance": distance, "depth": 10 * entry // n, "digit": i}
    assert len(queries) == 7


def ngram_ar(
    row: Row,
    queries: Queries,
    *,
    form: str,
    ngram: int,
    answer_length: int | None,
    shortest: int,
    longest: int,
    strings: int,
    vocab_size: int,
    **_: Any,
) -> None:
    alphabet = "abcdefghijklmnopqrstuvwxyz"[: vocab_size - 4] + "$|.*"
    text = "".join(alphabet[token] for token in row)
    gram, string, answer = f"(?P<gram>[a-z]{{{ngram}}})", "(?P<string>[a-z]+)", "(?P<answer>[a-z]+)"
    shape = rf"\${string}\|{gram}{answer}\." if form == "suffix" else rf"\${gram}\|{string}\|{answer}\."
    whole, start = [], 0
    while match := re.compile(shape).match(text, start):
        whole.append(match)
        start = match.end()
    assert 0 < len(whole) <= strings
    rest = text[start:]
    if rest.strip("*"):
        assert "*" not in rest and rest[0] == "$" and len(whole) < strings, "what the row's end cuts"
    expected = []
    for match in whole:
        letters, answer = match["string"], match["answer"]
        assert shortest <= len(letters) <= longest
        places = [i for i in range(len(letters)) if letters.startswith(match["gram"], i)]
        assert len(places) == 1, "the n-gram stands in the string more than once"
        assert answer == letters[places[0] + ngram :][:answer_length]
        source = match.start("string") + places[0] + ngram - 1
        for i, token in enumerate(answer + "."):
            position = match.start("answer") - 1 + i
            groups = {"distance": position - source - i, "answer": int(token == ".")}
            expected.append((position, alphabet.index(token), groups))
    assert queries == expected
