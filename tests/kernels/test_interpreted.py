"""Triton's kernels without a GPU, in processes of their own: Triton reads once, when it is imported, whether
it is to interpret, and a process that interprets cannot compile."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.command import ROOT
from zoo.kernels.choice import names_with

HERE = Path(__file__).parent
WITH_TRITON = names_with("triton")
FILES = ("ops", "block_choice", "laws")
pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="needs triton")


# two processes in two workers: the ops take as long as the others together
def group_of(name: str) -> str:
    return "triton two" if name == "ops" else "triton one"


def run(cache: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = {"TRITON_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", *words],
        cwd=ROOT,
        env={key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"} | settings,
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def ends(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], list[str]]:
    """How each test of a file has failed, or ""; one process for the files of its group."""
    tests = [item for item in request.session.items if isinstance(item, pytest.Function)]
    asked = [str(test.callspec.params["of"]) for test in tests if "ends" in test.fixturenames]
    found: dict[str, list[str]] = {}

    def of(name: str) -> list[str]:
        if name not in found:
            wanted = [one for one in asked if group_of(one) == group_of(name)]
            found.update({one: [] for one in wanted})  # a file that cannot be collected has no ends
            found.update(interpreted(tmp_path_factory.mktemp("triton"), wanted, "not slow"))
        return found[name]

    return of


def interpreted(place: Path, wanted: Iterable[str], marks: str) -> dict[str, list[str]]:
    pytest.importorskip("triton", "3.7")  # with numpy 2.4, older ones cannot loop up to a kernel's argument
    report, files = place / "report.xml", [str(HERE / f"interpreted_{of}.py") for of in wanted]
    words = ["-q", "-p", "no:cacheprovider", "-m", marks, f"--basetemp={place}/tmp"]
    words += [f"--junit-xml={report}", "-o", "junit_family=xunit1"]
    done = run(place / "cache", "pytest", *words, *files, TRITON_INTERPRET="1")
    assert report.exists(), done.stdout + done.stderr
    found: dict[str, list[str]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        of = case.get("classname", "").partition("interpreted_")[2]
        said = [end.text or "failed" for end in case if end.tag in ("failure", "error")]
        found.setdefault(of, []).append("\n".join(said))
    return found


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "of",
    [pytest.param(name, marks=pytest.mark.xdist_group(group_of(name))) for name in FILES],
)
def test_agrees_with_float64_in_the_interpreter(of: str, ends: Callable[[str], list[str]]):
    """The ops, and through them the laws of every mixer that calls one, and a population."""
    assert ends(of) and not any(ends(of)), "\n".join(ends(of))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_slow_ones_agree_in_the_interpreter(tmp_path: Path):
    found = interpreted(tmp_path, ["ops", "laws"], "slow")
    failed = [said for ends in found.values() for said in ends if said]
    assert len(found) > 1 and not failed, "\n".join(failed)


@pytest.mark.timeout(1800)
def test_compiles_for_a_gpu_that_is_not_here(tmp_path: Path):
    """Without a spill, with tensor-core instructions, within shared memory: one op, and those whose source
    was not found fit before (docs/kernels.md).  All of them: the slow test."""
    from tests.kernels.compiled import made_of, notes

    ops = ["block_summaries", *(op for op, noted in notes().items() if noted != made_of(op))]
    compiles(tmp_path, ops)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_op_compiles_for_a_gpu_that_is_not_here(tmp_path: Path):
    compiles(tmp_path, WITH_TRITON)


def compiles(cache: Path, ops: Iterable[str]) -> None:
    done = run(cache, "tests.kernels.compiled", "--few", "--arch", "90", "--op", *ops)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"sm_90 {op} " in done.stdout for op in ops)
