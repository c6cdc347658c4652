"""A sweep that is killed at random moments and restarted loses nothing and does nothing twice."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from tests.command import finish
from tests.disturbed import PATIENCE_S, Sweep, litter
from tests.toys.faulty import PACE
from zoo.results import lease, store

pytestmark = pytest.mark.xdist_group("kills")  # of one sweep, which ran undisturbed once
FEW, MANY = 5, 24  # cells

# The sitecustomize.py of every process of a sweep. A file "worker,last.ckpt,2" in the folder ZOO_TEST_TEAR
# means, once: at a worker's second fsync of its last.ckpt, the file is cut in half and the worker is killed.
TEAR = """
import os, signal, sys
from collections import Counter

folder, fsync, pushed = os.environ["ZOO_TEST_TEAR"], os.fsync, Counter()

def tear(fd):
    who = "driver" if "zoo.run" in sys.orig_argv else "worker"
    name = os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))
    for moment in os.listdir(folder):
        process, file, number = moment.split(",")
        if process == who and file in name:
            pushed[moment] += 1
            if pushed[moment] == int(number) and mine(moment):
                os.ftruncate(fd, os.fstat(fd).st_size // 2)
                os.kill(os.getpid(), signal.SIGKILL)
    fsync(fd)

def mine(moment):
    try:
        os.unlink(os.path.join(folder, moment))
    except FileNotFoundError:
        return False
    return True

os.fsync = tear
"""
MOMENTS = (
    *("worker,config.yaml,1", "worker,env.json,1", "worker,last.ckpt,2", "worker,metrics.csv,2"),
    *("worker,result.json,1", "driver,error.txt,5"),
)


def kill(sweep: Sweep, process: subprocess.Popen[str], who: str, chance: random.Random) -> None:
    """Kill the driver, all its processes, or first a worker and then the driver."""
    if who == "worker first":
        for pid in chance.sample(pids := sweep.at_work(), min(1, len(pids))):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(chance.uniform(0, 2))
    if who == "all":
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.communicate(timeout=PATIENCE_S)


def undisturbed_sweep(place: Path, cells: int, *words: str) -> Sweep:
    """Run a sweep to its end without a kill."""
    place.mkdir(exist_ok=True)
    sweep = Sweep(place, cells, *words)
    assert sweep.run() == (0, "")
    return sweep


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    return undisturbed_sweep(tmp_path_factory.mktemp("undisturbed"), FEW)


def test_kills_in_the_middle_of_files(tmp_path: Path, undisturbed: Sweep, monkeypatch: pytest.MonkeyPatch):
    """Five workers die, each in the middle of another file; the driver dies as it records the fifth death."""
    moments = tmp_path / "moments"
    moments.mkdir()
    for moment in MOMENTS:
        (moments / moment).touch()
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(TEAR)
    monkeypatch.setenv("ZOO_TEST_TEAR", str(moments))
    monkeypatch.setenv(PACE, "0")
    sweep = Sweep(tmp_path, FEW)
    code, _, _ = finish(sweep.start(str(tmp_path / "site")), PATIENCE_S)
    assert code == -signal.SIGKILL and [*moments.iterdir()] == []
    assert len(litter(tmp_path / "results")) == len(MOMENTS)
    sweep.look()
    assert not sweep.finished
    sweep.complete(undisturbed)


def kill_at(sweep: Sweep, whom: Sequence[str], chance: random.Random) -> None:
    for who in whom:
        process = sweep.start()
        sweep.until_at_work(process)
        time.sleep(chance.uniform(0, 1.5))
        failed = sweep.failed()
        kill(sweep, process, who, chance)
        sweep.look()
        assert who == "worker first" or sweep.failed() <= failed, "killed with its driver: it has not failed"


def test_kills_at_random_moments(tmp_path: Path, undisturbed: Sweep):
    """Kill the driver alone, whose workers end with it, then a worker; all at once: with -m slow."""
    sweep, chance = Sweep(tmp_path, FEW), random.Random(0)
    kill_at(sweep, ("driver",), chance)
    with ThreadPoolExecutor(1) as pool:
        killed = pool.submit(kill_a_worker, sweep)
        code, _ = sweep.run()
        killed.result()
    assert code == 1
    (failed,) = sweep.failed()
    assert "killed by SIGKILL" in (failed / "error.txt").read_text()
    sweep.look()
    # the files that remain after a kill between the record and the end of the process
    folder = next(iter(sweep.finished))
    (folder / "output.txt").touch()
    (folder / ".metrics.csv.1a2b3c4d.part").touch()
    with lease.held(folder):
        mine = (folder / lease.NAME).read_text()
    (folder / lease.NAME).write_text(mine.replace(f'"pid": {os.getpid()}', '"pid": 1'))
    sweep.complete(undisturbed)


def kill_a_worker(sweep: Sweep) -> None:
    sweep.until_at_work()
    os.kill(sweep.at_work()[0], signal.SIGKILL)


@pytest.mark.slow
def test_a_kill_of_populations(tmp_path: Path):
    """A restart keeps the size of a population, on which the last bits of its members depend in float32."""
    sweep = Sweep(tmp_path, FEW, "population=3")
    kill_at(sweep, ("driver",), random.Random(1))
    sweep.complete(undisturbed_sweep(tmp_path / "undisturbed", FEW, "population=3"))
    assert {store.read(folder)["population"]["size"] for folder in sweep.folders()} == {2, 3}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("population", [1, 3])
@pytest.mark.parametrize("seed", [1, 2])
def test_kills_at_twenty_random_moments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, population: int
):
    words = f"population={population}"
    undisturbed = undisturbed_sweep(tmp_path / "undisturbed", MANY, words)
    monkeypatch.setenv(PACE, "4")
    sweep, chance = Sweep(tmp_path, MANY, words), random.Random(seed)
    kill_at(sweep, chance.choices(("driver", "all", "worker first"), k=20), chance)
    assert len(sweep.finished) < MANY, "all was done before the last kill: give it more cells"
    sweep.complete(undisturbed)
