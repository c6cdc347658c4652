"""The counter RNG against the same hash in Python's unbounded integers."""

import pytest
import torch

from zoo.common.counter_rng import below, bits, stream, uniform

WORD = 2**64


def splitmix_output(state: int) -> int:
    """The published finaliser, on unsigned integers."""
    z = state % WORD
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
    return z ^ (z >> 31)


def golden(key: int, example: int, slot: int) -> int:
    return splitmix_output(key + 0x9E3779B97F4A7C15 * (example * 2**24 + slot))


def unsigned(x: torch.Tensor) -> list[int]:
    return [value % WORD for value in x.flatten().tolist()]


def test_the_hash_is_splitmix64():
    """Its generator from state 0 begins with these published numbers; slot s is output s - 1."""
    outputs = unsigned(bits(0, torch.tensor([0]), 4))[1:]
    assert outputs == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


@pytest.mark.parametrize("key", [0, 1, 2**63, WORD - 1, stream(7, 1, 2)])
def test_bits_equal_big_integer_arithmetic(key: int):
    examples = [0, 1, 5, 99_999, 2**31, 2**40 - 1]
    got = unsigned(bits(key, torch.tensor(examples), 9))
    assert got == [golden(key, example, slot) for example in examples for slot in range(9)]


def stream_by_hand(*path: int) -> int:
    key = 0
    for step in path:
        key = golden(key ^ step, 0, 1)
    return key


def test_streams_are_a_hash_of_their_path():
    paths = [(s, a, b) for s in range(9) for a in range(5) for b in range(9)]
    assert [stream(*path) for path in paths] == [stream_by_hand(*path) for path in paths]
    assert len({stream(*path) for path in paths}) == len(paths)
    assert stream(1, 2) != stream(2, 1)


def test_below_and_uniform_equal_exact_arithmetic():
    extremes = [0, 1, -1, 2**63 - 1, -(2**63), 2**23, 2**12 - 1]
    words = torch.cat([torch.tensor(extremes), bits(3, torch.arange(50), 40).flatten()])
    exact = [word % WORD for word in words.tolist()]
    for count in (1, 2, 127, 4095, 2**22):
        assert below(words, count).tolist() == [(word >> 23) * count >> 41 for word in exact]
    u = uniform(words)
    assert u.tolist() == [((word >> 12) + 0.5) / 2**52 for word in exact]
    assert u.min() > 0 and u.max() < 1


def test_the_caller_keeps_its_words():
    words = bits(3, torch.arange(5), 4)
    before = words.clone()
    below(words, 10), uniform(words)
    assert words.equal(before)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_same_bits_on_a_gpu():
    examples = torch.arange(1000)
    assert bits(5, examples.cuda(), 64).cpu().equal(bits(5, examples, 64))
