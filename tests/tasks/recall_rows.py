"""What rows of the recall tasks must be: plain Python that knows the definitions and none of the code.

A reader gets a row's tokens, what is asked of it, as (position, answer, groups), and the settings.
"""

import math
import re
from collections.abc import Callable
from typing import Any

Row = list[int]
Asked = list[tuple[int, int, dict[str, int]]]


def distinct(tokens: Row, low: int, high: int) -> None:
    """All different, from low to high - 1."""
    assert len(set(tokens)) == len(tokens), "not distinct"
    assert all(low <= token < high for token in tokens), f"not in {low}..{high - 1}"


def safe(row: Row, spoken: set[int], bound: set[int]) -> None:
    """No filler, which is what stands outside of the places `spoken`, is a token that binds."""
    assert not bound & {token for place, token in enumerate(row) if place not in spoken}


def grouped(groups: dict[str, int], **expected: int) -> None:
    assert groups == expected


def ar_single(row: Row, asked: Asked, *, num_kv_pairs: int, vocab_size: int, **_: Any) -> None:
    n, half = num_kv_pairs, (vocab_size + 1) // 2
    keys, values = row[0 : 2 * n : 2], row[1 : 2 * n : 2]
    distinct(keys, 1, half)
    distinct(values, half, vocab_size)
    [(position, answer, groups)] = asked
    assert position == len(row) - 1
    pair = keys.index(row[position])
    assert answer == values[pair]
    grouped(groups, distance=position - 2 * pair, depth=10 * pair // n)
    safe(row, {*range(2 * n), position}, {*keys, *values})


def ar_single_safari(row: Row, asked: Asked, *, num_kv_pairs: int, vocab_size: int, **_: Any) -> None:
    half = (vocab_size + 1) // 2
    pairs = [(row[i], row[i + 1]) for i in range(0, 2 * num_kv_pairs, 2)]
    assert all(1 <= key < half <= value < vocab_size for key, value in pairs)
    bound = dict(pairs)
    assert len(bound) == len(set(pairs)), "a key with two values"
    assert len(row) == 2 * num_kv_pairs + 2 and row[-2] == 0
    [(position, answer, groups)] = asked
    assert position == len(row) - 1 and answer == bound[row[-1]]
    last = max(i for i, (key, _) in enumerate(pairs) if key == row[-1])
    grouped(groups, distance=position - 2 * last, depth=10 * last // num_kv_pairs)


def mqar(
    row: Row, asked: Asked, *, num_kv_pairs: int, vocab_size: int, num_passes: int, filler: str, **_: Any
) -> None:
    n, context = num_kv_pairs, 2 * num_kv_pairs * num_passes
    keys, values = row[0 : 2 * n : 2], row[1 : 2 * n : 2]
    distinct(keys, 1, vocab_size // 2)
    distinct(values, vocab_size // 2, vocab_size)
    assert row[:context] == row[: 2 * n] * num_passes
    assert sorted(row[position] for position, *_ in asked) == sorted(keys), "each key is asked for once"
    for position, answer, groups in asked:
        assert context <= position <= len(row) - 2 and position % 2 == 0
        pair = keys.index(row[position])
        assert answer == values[pair]
        grouped(groups, distance=position - (context - 2 * n + 2 * pair))
    if filler == "safe":
        safe(row, {*range(context), *(position for position, *_ in asked)}, {*keys, *values})


def mqar_update(
    row: Row, asked: Asked, *, num_kv_pairs: int, vocab_size: int, num_updates: int, **_: Any
) -> None:
    n, shown = num_kv_pairs, num_kv_pairs + num_updates
    keys = rewritten(row, asked, shown, vocab_size, lambda write: {"binding": int(write >= n)})
    distinct(keys[:n], 1, vocab_size // 2)
    assert len(set(keys[n:])) == num_updates and set(keys[n:]) <= set(keys[:n])


def mqar_overwrite(
    row: Row, asked: Asked, *, num_kv_pairs: int, overwrites: int, vocab_size: int, **_: Any
) -> None:
    keys = rewritten(row, asked, num_kv_pairs * (overwrites + 1), vocab_size, lambda write: {})
    assert sorted(keys) == sorted([*set(keys)] * (overwrites + 1)) and len(set(keys)) == num_kv_pairs


def rewritten(
    row: Row, asked: Asked, shown: int, vocab_size: int, more: Callable[[int], dict[str, int]]
) -> Row:
    """The keys of so many writes; each is asked for its latest value.  more: other groups of a write."""
    keys, values = row[0 : 2 * shown : 2], row[1 : 2 * shown : 2]
    distinct(sorted(set(keys)), 1, vocab_size // 2)
    distinct(values, vocab_size // 2, vocab_size)
    assert sorted(row[position] for position, *_ in asked) == sorted(set(keys)), "each key is asked for once"
    for position, answer, groups in asked:
        assert position >= 2 * shown and position % 2 == 0
        write = max(i for i, key in enumerate(keys) if key == row[position])
        assert answer == values[write]
        grouped(groups, distance=position - 2 * write, depth=10 * write // shown, **more(write))
    safe(row, {*range(2 * shown), *(position for position, *_ in asked)}, {*keys, *values})
    return keys


def mqar_compositional(row: Row, asked: Asked, *, num_kv_pairs: int, vocab_size: int, **_: Any) -> None:
    n, third, side = num_kv_pairs, vocab_size // 3, math.isqrt(num_kv_pairs)
    firsts, seconds, values = (row[part : 3 * n : 3] for part in range(3))
    distinct(sorted(set(firsts)), 1, third)
    distinct(sorted(set(seconds)), third, 2 * third)
    distinct(values, 2 * third, vocab_size)
    assert len(set(firsts)) == len(set(seconds)) == side
    pairs = list(zip(firsts, seconds, strict=True))
    assert len(set(pairs)) == n, "a combination twice"
    assert sorted((row[p - 1], row[p]) for p, *_ in asked) == sorted(pairs), "each is asked for once"
    for position, answer, groups in asked:
        pair = pairs.index((row[position - 1], row[position]))
        assert position > 3 * n and (position - 3 * n) % 3 == 1
        assert answer == values[pair]
        grouped(groups, distance=position - 3 * pair - 1, depth=10 * pair // n)
    spoken = {*range(3 * n), *(p - i for p, *_ in asked for i in (0, 1))}
    safe(row, spoken, {*firsts, *seconds, *values})


def mqar_unseen(row: Row, asked: Asked, *, num_kv_pairs: int, vocab_size: int, **_: Any) -> None:
    n, none = num_kv_pairs, vocab_size - 1
    keys, values = row[0 : 2 * n : 2], row[1 : 2 * n : 2]
    distinct(keys, 1, none // 2)
    distinct(values, none // 2, none)
    distinct([row[position] for position, *_ in asked], 1, none // 2)
    assert len(asked) == n
    for j, (position, answer, groups) in enumerate(asked):
        assert position >= 2 * n and position % 2 == 0
        if row[position] in keys:
            assert row[position] == keys[j] and answer == values[j]
            grouped(groups, distance=position - 2 * j, depth=10 * j // n, binding=0)
        else:
            assert answer == none and row[position] not in row[:position]
            grouped(groups, distance=position, depth=0, binding=1)
    safe(row, {*range(2 * n), *(position for position, *_ in asked)}, {*keys, *values, none})


def mqar_apart(row: Row, asked: Asked, *, num_kv_pairs: int, vocab_size: int, apart: int, **_: Any) -> None:
    n, half, width = num_kv_pairs, vocab_size // 2, apart + 1
    keys, values = row[0 : width * n : width], row[apart : width * n : width]
    distinct(keys, 1, half)
    distinct(values, half, vocab_size)
    assert sorted(row[position] for position, *_ in asked) == sorted(keys), "each key is asked for once"
    for position, answer, groups in asked:
        assert position >= width * n and (position - width * n) % 2 == 0
        pair = keys.index(row[position])
        assert answer == values[pair]
        grouped(groups, distance=position - width * pair)
    spoken = {place for i in range(n) for place in (width * i, width * i + apart)}
    safe(row, spoken | {position for position, *_ in asked}, {*keys, *values})


def noisy_ar(
    row: Row, asked: Asked, *, num_kv_pairs: int, vocab_size: int, noise_tokens: int, **_: Any
) -> None:
    n, words = num_kv_pairs, vocab_size - noise_tokens
    pairs = [(row[i], row[i + 1]) for i in range(0, 2 * n, 2)]
    kept = {i: pair for i, pair in enumerate(pairs) if pair[0] < words}
    assert all(words <= token < vocab_size for i in range(n) if i not in kept for token in pairs[i])
    distinct([key for key, _ in kept.values()], 1, words // 2)
    distinct([value for _, value in kept.values()], words // 2, words)
    assert len(asked) == len(kept) > 0, "every pair that was kept is asked for, and no other"
    for (i, (key, value)), (position, answer, groups) in zip(kept.items(), asked, strict=True):
        assert position >= 2 * n and position % 2 == 0
        assert row[position] == key and answer == value
        grouped(groups, distance=position - 2 * i, depth=10 * i // n)
    spoken = {*range(2 * n), *(position for position, *_ in asked)}
    safe(row, spoken, {token for pair in kept.values() for token in pair} | {*range(words, vocab_size)})


def mqar_stacked(
    row: Row, asked: Asked, *, num_kv_pairs: int, vocab_size: int, num_passes: int, **_: Any
) -> None:
    n, half = num_kv_pairs, vocab_size // 2
    shown = [(token % half, token // half - 1) for token in row[: n * num_passes]]
    bound = dict(shown[:n])
    distinct(list(bound), 0, half)
    distinct(list(bound.values()), 0, half)
    for turn in range(num_passes):
        assert dict(shown[n * turn : n * (turn + 1)]) == bound and len(bound) == n
    assert sorted(row[n * num_passes :]) == sorted(bound), "each key is asked for once"
    assert sorted(position for position, *_ in asked) == list(range(n * num_passes, len(row)))
    for position, answer, groups in asked:
        assert answer == bound[row[position]]
        last = max(i for i, (key, _) in enumerate(shown) if key == row[position])
        grouped(groups, distance=position - last, depth=10 * (last % n) // n)


def set_disjoint(
    row: Row, asked: Asked, *, first_set: int, second_set: int, vocab_size: int, num_passes: int, **_: Any
) -> None:
    once = 2 + first_set + second_set
    assert row == row[:once] * num_passes + [3]
    first, second = row[1 : 1 + first_set], row[2 + first_set : once]
    assert row[0] == 1 and row[1 + first_set] == 2
    distinct(first, 4, vocab_size)
    distinct(second, 4, vocab_size)
    [common] = set(first) & set(second)
    [(position, answer, groups)] = asked
    assert position == len(row) - 1 and answer == common
    source = once * (num_passes - 1) + 1 + first.index(common)
    grouped(groups, distance=position - source, depth=10 * first.index(common) // first_set)


def phonebook(row: Row, asked: Asked, *, num_entries: int, vocab_size: int, **_: Any) -> None:
    n, firsts = num_entries, (vocab_size - 11) // 3
    assert [row[i] for i in (0, 9 * n + 1, 9 * n + 20)] == [0, 0, 0] and row.count(0) == 3
    entries = [row[i : i + 9] for i in range(1, 9 * n, 9)]
    names = [tuple(entry[:2]) for entry in entries]
    assert len(set(names)) == n and len(row) == 9 * n + 29
    for first, last, digit, *digits in entries:
        assert 11 <= first < 11 + firsts <= last < vocab_size
        assert 7 <= digit <= 10 and all(1 <= d <= 10 for d in digits)
    again = [row[9 * n + 2 :][:9], row[9 * n + 11 :][:9]]
    question = [*row[9 * n + 21 :], asked[-1][1]]
    assert all(entry in entries for entry in [*again, question])
    assert len({tuple(entry) for entry in [*again, question]}) == 3
    entry = entries.index(question)
    for i, (position, answer, groups) in enumerate(asked):
        assert position == 9 * n + 22 + i and answer == question[2 + i]
        distance = position - (1 + 9 * entry + 1 + i)
        grouped(groups, distance=distance, depth=10 * entry // n, digit=i)
    assert len(asked) == 7


def ngram_ar(
    row: Row,
    asked: Asked,
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
        letters, said = match["string"], match["answer"]
        assert shortest <= len(letters) <= longest
        places = [i for i in range(len(letters)) if letters.startswith(match["gram"], i)]
        assert len(places) == 1, "the n-gram stands in the string more than once"
        follows = letters[places[0] + ngram :][:answer_length]
        assert said == follows
        source = match.start("string") + places[0] + ngram - 1
        for i, token in enumerate(said + "."):
            position = match.start("answer") - 1 + i
            groups = {"distance": position - source - i, "answer": int(token == ".")}
            expected.append((position, alphabet.index(token), groups))
    assert asked == expected
