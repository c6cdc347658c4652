"""MQAR's settings and errors; its rows are in test_recall_rows.py, its random numbers in test_mqar_law.py."""

from typing import Any

import pytest
import torch

from tests.tasks.laws import mqar
from zoo.tasks.laws import same
from zoo.tasks.mqar import MQAR


def test_safe_filler_where_hardly_a_token_is_left():
    batch = mqar(16, 3, vocab_size=8, filler="safe").sample("train", 0, range(300))
    rest = batch.inputs[:, 6:].scatter(1, batch.positions - 6, 0)
    free = 28 - batch.inputs[:, :6].sum(1, keepdim=True)  # of 0 to 7 all but the six taken: 0 and one value
    assert ((rest == 0) | (rest == free)).all() and (rest != 0).any()


def test_chunks_never_change_a_byte(monkeypatch: pytest.MonkeyPatch):
    task = mqar(64, 4, filler="safe")
    whole = task.sample("train", 0, range(100))
    monkeypatch.setattr("zoo.tasks.mixture.CHUNK", {"cpu": 640})
    assert same(task.sample("train", 0, range(100)), whole)


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
