"""Shared by all tests: one thread, a seed, and which of them run in one worker of pytest-xdist."""

import gc
import os
import signal
from pathlib import Path

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's job in the background is deaf to Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch

from tests.command import Run, Zoo

gc.disable()  # until all is collected: to look through what is imported and stays takes a quarter of the time

# groups that take long, the longest first: no worker is left alone with one at the end
LONGEST = (
    *("browser", "every mixer composed", "tests/analysis/test_committed.py", "terminal", "kills"),
    *("tests/analysis/test_notebook.py", "tests/kernels/test_interpreted.py", "tests/test_interrupts.py"),
    *("tests/mixers/test_mixer_laws.py", "tests/launch/test_launcher.py", "tests/test_readme.py"),
    *("tests/terminal/test_streams_and_places.py", "tests/config/test_every_leaf.py"),
    *("tests/population/test_sweeps.py", "tests/training/test_resuming.py", "tests/kernels/test_native.py"),
    *("tests/mixers/test_mixer_numerics.py", "tests/analysis/test_figures.py"),
)


@pytest.fixture(autouse=True)
def _one_thread_and_seeded() -> None:
    torch.set_num_threads(1)
    torch.default_generator.manual_seed(0)  # torch.manual_seed keeps its stack trace for CUDA, each call


@pytest.fixture
def cwd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, which the test runs in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def zoo(cwd: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Zoo:
    """`python -m zoo.run` in this process, in a folder of its own."""
    return Zoo(monkeypatch, capfd)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(capsys)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A file's tests share a worker, and so what they import and make, unless they name another group."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.split("::")[0]))
    if getattr(config.option, "loadgroup", False):
        items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    marker = item.get_closest_marker("xdist_group")
    return LONGEST.index(marker.args[0]) if marker and marker.args[0] in LONGEST else len(LONGEST)


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()
    gc.enable()
    _held_together(session)


def _held_together(session: pytest.Session) -> None:
    """Groups of pytest-xdist stay together; a pytest that it does not know scatters them silently."""
    grouped = [item for item in session.items if item.get_closest_marker("xdist_group")]
    if getattr(session.config.option, "loadgroup", False) and any("@" not in item.nodeid for item in grouped):
        raise pytest.UsageError("this pytest ignores the groups of pytest-xdist: use that of constraints.txt")


def pytest_unconfigure() -> None:
    gc.unfreeze()  # or what a package in C++ holds at the end would be called a leak
