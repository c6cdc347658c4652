"""Run by test_interpreted.py: a population trains through our kernels."""

import json
from pathlib import Path

import pytest

from tests.command import Zoo

SHORT = "[{seq_len: 16, num_examples: 4, num_kv_pairs: 2}]"


def test_a_population_trains_through_triton(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    words = ["mixer=based", "experiment=smoke", "optim.batch_size=4", "d_model=16", "lr=0.001,0.01"]
    words += [f"task.{split}={SHORT}" for split in ("train", "valid", "test")]
    code, _, err = Zoo(monkeypatch, capfd)("-m", *words, "population=2", "kernels=triton")
    assert code == 0, err
    records = [json.loads(path.read_text()) for path in tmp_path.glob("results/*/result.json")]
    assert [record["population"]["size"] for record in records] == [2, 2]
    expected = {"linear_cross_entropy": "chunked", "taylor_attention": "triton"}
    assert all(record["kernels"].items() >= expected.items() for record in records)
