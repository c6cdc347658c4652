"""Ctrl-C and SIGTERM at any moment of a command: it ends so, loses no step, goes on to the same record."""

import os
import random
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest

from tests.command import SMALL, Zoo, as_module, finish, start
from tests.disturbed import litter
from tests.population.together import MEASURED
from zoo.common import interrupts
from zoo.common.forkserver import start as start_forkserver
from zoo.launch.process_pool import PRELOADED
from zoo.results import store

CELL = (*SMALL, "max_examples=96", "optim.max_epochs=2", "trainer.checkpoint_every=1000")
COMMANDS = {
    "one": (*CELL, "mixer=based"),
    "sweep": ("-m", *CELL, "mixer=based", "seed=0,1", "hydra.launcher.n_workers=2"),
    "population": ("-m", *CELL, "mixer=based", "seed=0,1", "population=2"),
}
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
SAID = "interrupted; the same command goes on where this one stopped\n"
TRIES, MOMENTS = 2, 40


# What is raised where it is dropped


def drop(number: int) -> None:
    """A signal in the callback of a weak reference, as one that comes amid an import."""
    marked = set[int]()
    kept = weakref.ref(marked, lambda _: os.kill(os.getpid(), number))
    del marked
    assert kept() is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, interrupts.Terminated)]
)
def test_a_signal_that_python_drops_is_not_forgotten(number: int, kind: type[BaseException]):
    handlers = [signal.getsignal(s) for s in CODES]
    with interrupts.attended():
        drop(number)  # "Exception ignored in"
        with pytest.raises(kind):
            interrupts.check()
        with pytest.raises(kind), interrupts.at_once():
            raise AssertionError("nothing begins any more")
    assert [signal.getsignal(s) for s in CODES] == handlers and not interrupts.requested()
    with pytest.raises(kind), interrupts.attended(), interrupts.at_once():
        drop(number)
        raise ValueError("what a library makes of it")


def test_what_is_ignored_stays_ignored(monkeypatch: pytest.MonkeyPatch):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does to what runs in the background
    try:
        with interrupts.attended():
            os.kill(os.getpid(), signal.SIGINT)
            assert not interrupts.requested()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_command_in_this_process_gives_back_its_signals(monkeypatch: pytest.MonkeyPatch):
    """It had left a hook behind that answers an exception in a `__del__` of any later test with Ctrl-C."""

    def held() -> list[object]:
        return [sys.unraisablehook, interrupts._signals, *map(signal.getsignal, (*CODES, signal.SIGPIPE))]

    before = held()
    assert as_module(monkeypatch, "zoo.mixers", "--help") == 0
    assert held() == before


# Any moment.  One command again and again in one place, each time told to end a little later.


def in_process(zoo: Zoo, words: Sequence[str], number: int, seconds: float) -> tuple[int, str]:
    """As the command's own process has it: whatever comes at its end is only noted."""
    with interrupts.attended(), interrupts.after():
        timer = threading.Timer(seconds, os.kill, (os.getpid(), number))
        timer.start()
        code, _, err = zoo(*words)
        timer.cancel()
        timer.join()
    return code, err


def assert_stopped(place: Path, code: int, err: str, number: signal.Signals, cells: int) -> None:
    done = [*place.glob("results/*/result.json")]
    assert code == (0 if len(done) == cells and not err else CODES[number])
    assert err in ("", SAID)
    assert litter(place / "results") == [] and not [*place.glob("results/*/error.txt")]
    assert not [*place.glob("results/*/claim.json")]


def steps(place: Path) -> int:
    import torch

    saved = [
        torch.load(path, weights_only=True)["position"]["step"] for path in place.glob("results/*/last.ckpt")
    ]
    return sum(saved) + sum(store.read(path.parent)["steps"] for path in place.glob("results/*/result.json"))


def told(folder: Path) -> tuple[bytes, dict[str, Any]]:
    """All that does not tell of times, or of the words of the command."""
    record = {k: v for k, v in store.read(folder).items() if k not in (*MEASURED, "overrides")}
    record.get("population", {}).pop("wall_seconds", None)
    return (folder / "metrics.csv").read_bytes(), record


# A signal that lands in somebody's __del__ is dropped there, and raised by the next `interrupts.check`.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("mode", COMMANDS)
def test_a_command_told_to_end_at_many_moments_ends_with_the_same_record(zoo: Zoo, tmp_path: Path, mode: str):
    words, chance = COMMANDS[mode], random.Random(mode)
    began = time.monotonic()
    assert zoo(*words, "results=undisturbed")[0] == 0
    whole = time.monotonic() - began
    folders = sorted(tmp_path.glob("undisturbed/*-*"))
    before, code = 0, 1
    for i in range(TRIES):
        number = [*CODES][i % 2]
        code, err = in_process(zoo, words, number, chance.uniform(0.1, 0.9) * whole)
        assert_stopped(tmp_path, code, err, number, len(folders))
        assert steps(tmp_path) >= before
        before = steps(tmp_path)
        if code == 0:
            break
    assert code == 0 or zoo(*words)[0] == 0
    for folder in folders:
        assert told(tmp_path / "results" / folder.name) == told(folder)


def test_ctrl_c_does_not_reach_the_fork_server():
    """It imports torch for seconds, and had answered with a traceback."""
    start_forkserver(PRELOADED)
    pid = forkserver._forkserver._forkserver_pid  # pyright: ignore[reportAttributeAccessIssue]
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        pytest.skip("no /proc on this system")
    blocked = next(line for line in status.read_text().splitlines() if line.startswith("SigBlk"))
    assert int(blocked.split()[1], 16) & 1 << (signal.SIGINT - 1)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("end", [os.kill, os.killpg])
@pytest.mark.parametrize("mode", COMMANDS)
def test_a_process_told_to_end_at_many_moments(tmp_path: Path, mode: str, end: Callable[[int, int], None]):
    """From start to end; what comes before our first line or after our last, Python answers."""
    words, chance = COMMANDS[mode], random.Random(f"{mode} {end}")
    began = time.monotonic()
    assert finish(start(*words, cwd=tmp_path))[0] == 0
    whole, cells = time.monotonic() - began, len([*tmp_path.glob("results/*/result.json")])
    for i in range(MOMENTS):
        place, number = tmp_path / str(i), [*CODES][i % 2]
        (place / "results").mkdir(parents=True)
        process = start(*words, cwd=place)
        time.sleep(chance.uniform(0, 1.1) * whole)
        if process.poll() is None:
            end(process.pid, number)
        code, _, err = finish(process)
        if code == -number:
            done = len([*place.glob("results/*/result.json")])
            assert done == cells or not [*place.glob("results/*")]
        else:
            assert_stopped(place, code, err, number, cells)
