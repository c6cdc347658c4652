"""MQAR row by row, and its errors.  The laws of its random numbers are in test_mqar_law.py."""

from typing import Any

import pytest
import torch

from tests.tasks.laws import mqar
from zoo.tasks.base import Batch
from zoo.tasks.mqar import MQAR

SHAPES = [(64, 4), (64, 16), (256, 64), (1024, 256), (8, 1)]


def sources(batch: Batch) -> torch.Tensor:
    return batch.positions - batch.groups["distance"]


def last_binding(batch: Batch) -> torch.Tensor:
    """What a reader answers who takes the token after the latest earlier occurrence of the asked one."""
    inputs, asked = batch.inputs, batch.inputs.gather(1, batch.positions)
    answers = torch.empty_like(asked)
    for j in range(asked.shape[1]):
        earlier = torch.arange(inputs.shape[1]) < batch.positions[:, j : j + 1]
        hits = (inputs == asked[:, j : j + 1]) & earlier
        latest = inputs.shape[1] - 1 - hits.flip(1).int().argmax(1)
        answers[:, j] = inputs.gather(1, latest[:, None] + 1)[:, 0]
    return answers


@pytest.mark.parametrize(("seq_len", "n"), SHAPES)
@pytest.mark.parametrize("filler", ["safe", "random", "blank"])
def test_every_row_is_as_the_definition_says(seq_len: int, n: int, filler: str):
    count = max(200, 120_000 // seq_len)
    batch = mqar(seq_len, n, filler=filler).sample("train", 0, range(count))
    context = batch.inputs[:, : 2 * n]
    keys, values = context[:, 0::2], context[:, 1::2]
    assert keys.min() >= 1 and keys.max() < 4096 <= values.min() and values.max() < 8192
    for tokens in (keys, values, batch.positions):
        assert (tokens.sort().values.diff() != 0).all(), "not distinct in a row"
    assert batch.answers.equal(values)
    assert batch.inputs.gather(1, batch.positions).equal(keys)
    assert sources(batch).equal(torch.arange(0, 2 * n, 2).expand(count, n))
    assert (batch.positions >= 2 * n).all() and (batch.positions % 2 == 0).all()
    assert batch.positions.max() <= seq_len - 2


@pytest.mark.parametrize("passes", [2, 3])
def test_passes_repeat_the_pairs_and_the_source_is_the_last_pass(passes: int):
    n, seq_len = 4, 8 * (passes + 1)
    batch = mqar(seq_len, n, num_passes=passes, filler="safe").sample("train", 0, range(500))
    shown = batch.inputs[:, : 2 * n * passes].unflatten(1, (passes, 2 * n))
    assert (shown == shown[:, :1]).all()
    assert sources(batch).equal(torch.arange(0, 2 * n, 2).expand(500, n) + 2 * n * (passes - 1))
    assert last_binding(batch).equal(batch.answers)
    assert batch.positions.min() == 2 * n * passes


@pytest.mark.parametrize(("seq_len", "n"), SHAPES)
@pytest.mark.parametrize("vocab_size", [1024, 8192])
def test_safe_filler_is_no_key_and_no_value(seq_len: int, n: int, vocab_size: int):
    batch = mqar(seq_len, n, vocab_size, filler="safe").sample("train", 0, range(100))
    rest = batch.inputs.clone()
    rest[:, : 2 * n] = -1
    rest.scatter_(1, batch.positions, -1)
    for row, taken in zip(rest, batch.inputs[:, : 2 * n], strict=True):
        assert not torch.isin(row, taken).any()
    assert last_binding(batch).equal(batch.answers)


def test_safe_filler_where_hardly_a_token_is_left():
    batch = mqar(16, 3, vocab_size=8, filler="safe").sample("train", 0, range(300))
    rest = batch.inputs[:, 6:].scatter(1, batch.positions - 6, 0)
    free = 28 - batch.inputs[:, :6].sum(
        1, keepdim=True
    )  # 0 + 1 + ... + 7 less the six taken: 0 and one value
    assert ((rest == 0) | (rest == free)).all() and (rest != 0).any()


def test_blank_filler_is_token_zero():
    batch = mqar(64, 4, filler="blank").sample("train", 0, range(100))
    assert ((batch.inputs != 0).sum(1) == 12).all()


def test_the_oracle_reads_the_context_alone():
    batch = mqar(1024, 256, filler="random").sample("train", 0, range(50))
    found = batch.inputs.gather(1, sources(batch) + 1)
    assert found.equal(batch.answers)


def test_chunks_never_change_a_byte(monkeypatch: pytest.MonkeyPatch):
    task = mqar(64, 4, filler="safe")
    whole = task.sample("train", 0, range(100))
    monkeypatch.setattr("zoo.tasks.mixture.CHUNK", {"cpu": 640})
    again = task.sample("train", 0, range(100))
    assert all(a.equal(b) for a, b in zip(again.tensors, whole.tensors, strict=True))
    assert sources(again).equal(sources(whole))


def test_every_setting_moves_the_rows():
    def rows(**changes: Any) -> torch.Tensor:
        return mqar(**({"seq_len": 64, "num_kv_pairs": 4} | changes)).sample("train", 0, range(50)).inputs

    plain = rows()
    changes = [{"seed": 1}, {"vocab_size": 4096}, {"filler": "safe"}, {"power_a": 1.0}, {"num_passes": 2}]
    for change in changes:
        assert not rows(**change).equal(plain), change


GOOD: dict[str, Any] = {
    "seed": 0,
    "vocab_size": 64,
    "power_a": 0.01,
    "num_passes": 1,
    "filler": "safe",
    "data": "stream",
    "order": "interleaved",
} | {split: [{"seq_len": 16, "num_kv_pairs": 4, "num_examples": 8}] for split in ("train", "valid", "test")}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"filler": "saef"}, r"task\.filler \(='saef'\) must be one of safe, random, blank"),
        ({"data": "fresh"}, r"task\.data \(='fresh'\) must be one of"),
        ({"order": "random"}, r"task\.order \(='random'\) must be one of"),
        ({"num_passes": 0}, r"task\.num_passes \(=0\) must be at least 1"),
        ({"num_passes": 2}, r"6 \* num_kv_pairs \(=4\) must be at most seq_len \(=16\).*24 tokens"),
        ({"power_a": 0.0}, r"task\.power_a \(=0\.0\) must be positive"),
        ({"vocab_size": 9}, r"task\.vocab_size \(=9\) has 3 keys, too few .* use at least 10"),
        ({"train": []}, r"task\.train has no segments"),
        ({"test": [{"seq_len": 16}]}, r"a segment of task\.test must be {seq_len, num_kv_pairs, num_ex"),
        ({"test": [16]}, r"a segment of task\.test must be .* it is 16"),
        ({"test": [{"seq_len": 16.5, "num_kv_pairs": 1, "num_examples": 1}]}, r"16\.5.* must be a whole"),
        ({"valid": [{"seq_len": 15, "num_kv_pairs": 1, "num_examples": 1}]}, r"must be even; use 16"),
        ({"valid": [{"seq_len": 16, "num_kv_pairs": 0, "num_examples": 1}]}, r"num_kv_pairs \(=0\)"),
        ({"valid": [{"seq_len": 16, "num_kv_pairs": 1, "num_examples": 0}]}, r"num_examples \(=0\)"),
        ({"valid": [{"seq_len": 18, "num_kv_pairs": 5, "num_examples": 1}]}, r"4 \* num_kv_pairs \(=5\)"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(changes: dict[str, Any], words: str):
    MQAR(**GOOD)
    with pytest.raises(ValueError, match=words) as error:
        MQAR(**(GOOD | changes))
    assert "\n" not in str(error.value)


def test_the_smallest_vocabulary_works():
    batch = MQAR(**(GOOD | {"vocab_size": 10})).sample("train", 0, range(100))
    assert batch.inputs[:, :8:2].sort().values.equal(torch.arange(1, 5).expand(100, 4))
