"""Triton's kernels without a GPU, in processes of their own: Triton reads once, when it is imported, whether
it is to interpret, and a process that interprets cannot compile."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.command import ROOT
from zoo.kernels.choice import ops

HERE = Path(__file__).parent
WITH_TRITON = [op.name for op in ops() if "triton" in op.others]
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


def test_compiles_for_a_gpu_that_is_not_here(tmp_path: Path):
    """Without a spill, with tensor-core instructions, within shared memory.  The whole table: make bench."""
    done = run(tmp_path, "benchmarks.kernels_offline", "--few", "--arch", "90")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"| {op} |" in done.stdout for op in WITH_TRITON)
