"""Triton's kernels without a GPU, in processes of their own: Triton reads once, when it is imported, whether
it is to interpret, and a process that interprets cannot compile."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.command import ROOT
from zoo.kernels.choice import names_with

HERE = Path(__file__).parent
FILES = ("ops", "block_choice", "laws")  # block_choice has nothing slow
pytestmark = [
    pytest.mark.skipif(find_spec("triton") is None, reason="needs triton"),
    pytest.mark.timeout(1800),
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


@pytest.mark.parametrize("marks", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_kernels_agree_with_float64_in_the_interpreter(marks: str, tmp_path: Path):
    """The ops agree, and through them the laws of every mixer that calls one, and a population."""
    pytest.importorskip("triton", "3.7")  # with numpy 2.4, older ones cannot loop up to a kernel's argument
    words = ["-vv", "-p", "no:cacheprovider", "-m", marks, f"--basetemp={tmp_path}/tmp"]
    paths = [str(HERE / f"interpreted_{name}.py") for name in FILES]
    done = run(tmp_path / "cache", "pytest", *words, *paths, TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"interpreted_{name}.py::" in done.stdout for name in FILES[:: 2 if marks == "slow" else 1])


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_compiles_for_a_gpu_that_is_not_here(every: bool, tmp_path: Path):
    """Kernels compile without a spill, with tensor-core instructions, within shared memory: of every op,
    or of one op and those whose source was not found fit before (docs/kernels.md).
    """
    from tests.kernels.compiled import made_of, notes

    changed = [op for op, noted in notes().items() if noted != made_of(op)]
    ops = names_with("triton") if every else ["block_summaries", *changed]
    done = run(tmp_path, "tests.kernels.compiled", "--few", "--arch", "90", "--op", *ops)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"sm_90 {op} " in done.stdout for op in ops)
