"""Triton's kernels without a GPU, in processes of their own: Triton reads once, when it is imported, whether
it is to interpret, and a process that interprets cannot compile."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.command import ROOT
from zoo.kernels.choice import names_with

HERE = Path(__file__).parent
WITH_TRITON = names_with("triton")
pytestmark = [
    pytest.mark.skipif(find_spec("triton") is None, reason="needs triton"),
    pytest.mark.xdist_group("triton"),
]


def run(cache: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = {"TRITON_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", *words],
        cwd=ROOT,
        env={key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"} | settings,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("of", [*WITH_TRITON, "laws"])
def test_agrees_with_float64_in_the_interpreter(of: str, tmp_path: Path):
    """Each op by itself, and through them the laws of every mixer that calls one."""
    pytest.importorskip("triton", "3.7")  # with numpy 2.4, older ones cannot loop up to a kernel's argument
    file = str(HERE / f"interpreted_{of}.py")
    done = run(tmp_path, "pytest", "-q", "-p", "no:cacheprovider", file, TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_population_trains_through_triton(tmp_path: Path):
    words = ["mixer=based", "experiment=smoke", "max_examples=8", "optim.batch_size=4", "d_model=16"]
    words += ["lr=0.001,0.01", "population=2", "kernels=triton", f"results={tmp_path}/results"]
    done = run(tmp_path, "zoo.run", "-m", *words, TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stdout + done.stderr
    records = [json.loads(path.read_text()) for path in tmp_path.glob("results/*/result.json")]
    assert [record["population"]["size"] for record in records] == [2, 2]
    expected = {"linear_cross_entropy": "triton", "taylor_attention": "triton"}
    assert all(record["kernels"].items() >= expected.items() for record in records)


@pytest.mark.xdist_group("triton_compiler")
@pytest.mark.timeout(1800)
def test_compiles_for_a_gpu_that_is_not_here(tmp_path: Path):
    """Without a spill, with tensor-core instructions, within shared memory: one op, and those whose source was
    not found fit before (docs/kernels.md).  The whole table: make bench."""
    from benchmarks.kernels_offline import made_of, notes

    ops = ["block_summaries", *(op for op, noted in notes().items() if noted != made_of(op))]
    compiles(tmp_path, ops)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_op_compiles_for_a_gpu_that_is_not_here(tmp_path: Path):
    compiles(tmp_path, WITH_TRITON)


def compiles(cache: Path, ops: Iterable[str]) -> None:
    done = run(cache, "benchmarks.kernels_offline", "--few", "--arch", "90", "--op", *ops)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"| {op} |" in done.stdout for op in ops)
