"""A claim: one process at a time, gone with its holder, taken over after a long silence and never twice."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.command import ENVIRONMENT
from zoo.results import lease
from zoo.results.lease import EXPIRES, NAME, Busy, Holder

OTHER = Holder("t", "elsewhere", "elsewhere boot pid", 1, 5, None, 0.0)
HOLD = """
import sys, time
from pathlib import Path
from zoo.results import lease
lease.BEAT = float(sys.argv[2])
with lease.held(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def place(folder: Path, holder: Holder, silent: float = 0.0) -> Path:
    path = folder / NAME
    path.write_text(json.dumps(asdict(holder)))
    then = time.time() - silent
    os.utime(path, (then, then))
    return path


def holding(folder: Path, beat: float = lease.BEAT) -> subprocess.Popen[str]:
    """A process that holds the folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), str(beat)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    assert process.stdout and process.stdout.readline() == "held\n"
    return process


def test_it_is_taken_kept_and_given_back(tmp_path: Path):
    assert lease.holder(tmp_path) is None
    with lease.held(tmp_path):
        found = lease.holder(tmp_path)
        assert found and found.pid == os.getpid()
    assert list(tmp_path.iterdir()) == []


def test_another_process_has_it_until_it_dies_however_it_dies(tmp_path: Path):
    process = holding(tmp_path)
    with pytest.raises(Busy, match=f"is being worked on by process {process.pid} of "), lease.held(tmp_path):
        pass
    process.kill()
    process.communicate()
    assert lease.holder(tmp_path) is None
    gone = lease.left_behind(tmp_path)
    assert gone and gone.pid == process.pid
    with lease.held(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_pid_that_came_again_is_not_the_holder(tmp_path: Path):
    with lease.held(tmp_path):
        mine = lease.holder(tmp_path)
        assert mine and mine.started
        (tmp_path / NAME).rename(tmp_path / "kept")
        place(tmp_path, replace(mine, token="t", started=mine.started - 1))
        assert lease.holder(tmp_path) is None
        (tmp_path / "kept").rename(tmp_path / NAME)


def test_one_on_another_machine_counts_until_it_is_silent(tmp_path: Path):
    place(tmp_path, OTHER, silent=EXPIRES - 20)
    with pytest.raises(Busy, match="process 1 of elsewhere"), lease.held(tmp_path):
        pass
    place(tmp_path, OTHER, silent=EXPIRES + 20)
    assert lease.holder(tmp_path) is None
    with lease.held(tmp_path):
        found = lease.holder(tmp_path)
        assert found and found.pid == os.getpid()


def test_one_dated_in_the_future_is_silent_from_when_it_is_first_seen(tmp_path: Path):
    """As after a clock that was wrong until the machine had been up for a while."""
    path = place(tmp_path, OTHER, silent=-3600)
    before = time.time()
    assert lease.holder(tmp_path) == OTHER
    assert before - 1 <= path.stat().st_mtime <= time.time() + 1
    place(tmp_path, OTHER, silent=-3600)
    with pytest.raises(Busy), lease.held(tmp_path):
        pass
    assert path.stat().st_mtime <= time.time() + 1
    assert [file.name for file in tmp_path.iterdir()] == [NAME]


def test_a_clock_that_is_behind_leaves_the_claims_of_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = place(tmp_path, OTHER)
    true, dated = time.time, path.stat().st_mtime
    monkeypatch.setattr(time, "time", lambda: true() - 3600)
    assert lease.holder(tmp_path) == OTHER and path.stat().st_mtime == dated


def test_this_very_job_before_its_requeue_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    place(tmp_path, replace(OTHER, job="7"))
    monkeypatch.setenv("SLURM_JOB_ID", "8")
    assert lease.holder(tmp_path) == replace(OTHER, job="7")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert lease.holder(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"token": "x"}'])
def test_an_unreadable_claim_counts_until_it_is_silent(tmp_path: Path, text: str):
    path = place(tmp_path, OTHER)
    path.write_text(text)
    with pytest.raises(Busy), lease.held(tmp_path):
        pass
    os.utime(path, (1, 1))
    with lease.held(tmp_path):
        pass


def test_it_stays_fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lease, "BEAT", 0.01)
    with lease.held(tmp_path):
        os.utime(tmp_path / NAME, (1, 1))
        until = time.monotonic() + 10
        while (tmp_path / NAME).stat().st_mtime < 2 and time.monotonic() < until:
            time.sleep(0.01)
        assert (tmp_path / NAME).stat().st_mtime > 2


def test_one_that_was_taken_over_ends_at_once(tmp_path: Path):
    victim = holding(tmp_path, beat=0.05)
    place(tmp_path, OTHER)
    _, err = victim.communicate(timeout=20)
    assert victim.returncode == lease.BUSY
    assert "taken over by process 1 of elsewhere" in err
    assert lease.holder(tmp_path) == OTHER


@pytest.mark.parametrize("stale", [False, True], ids=["free", "dead"])
def test_of_many_at_once_one_has_it(tmp_path: Path, stale: bool):
    """Each holder makes a file that must not exist yet."""
    folder, log = tmp_path / "cell", tmp_path / "log"
    folder.mkdir()
    log.mkdir()
    context = multiprocessing.get_context("fork")
    start = context.Barrier(6)
    workers = [context.Process(target=_contend, args=(folder, log, start, stale)) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 6
    assert len(list(log.glob("held-*"))) >= 30
    assert [path.name for path in folder.iterdir() if path.suffix in (".part", ".dead")] == []


def _contend(folder: Path, log: Path, start, stale: bool) -> None:
    for round_ in range(30):
        if stale and start.wait(20) == 0:
            place(folder, replace(OTHER, token=f"dead{round_}"), silent=EXPIRES + 1)
        start.wait(20)
        try:
            with lease.held(folder):
                (log / "alone").touch(exist_ok=False)
                (log / f"held-{round_}-{os.getpid()}").touch()
                time.sleep(0.002)
                (log / "alone").unlink()
        except Busy:
            continue


def test_a_suspended_holder_on_this_machine_keeps_it(tmp_path: Path):
    process = holding(tmp_path)
    process.send_signal(signal.SIGSTOP)
    os.utime(tmp_path / NAME, (1, 1))
    with pytest.raises(Busy), lease.held(tmp_path):
        pass
    process.kill()
    process.communicate()
