"""A claim: one process at a time, gone with its holder, taken over after a long silence and never twice."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.command import ENVIRONMENT, until
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


@contextmanager
def holding(folder: Path, beat: float = lease.BEAT) -> Iterator[subprocess.Popen[str]]:
    """Hold the folder in another process, which is killed at the end."""
    words, pipe = [sys.executable, "-c", HOLD, str(folder), str(beat)], subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, env=ENVIRONMENT) as process:
        try:
            assert process.stdout and process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def assert_busy(folder: Path, message: str = "is being worked on by") -> None:
    with pytest.raises(Busy, match=message), lease.held(folder):
        pass


def assert_mine(folder: Path) -> None:
    with lease.held(folder):
        holder = lease.holder(folder)
        assert holder and holder.pid == os.getpid()


def test_a_claim_is_taken_and_given_back(tmp_path: Path):
    assert lease.holder(tmp_path) is None
    assert_mine(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_killed_holder_is_gone_and_its_folder_can_be_claimed(tmp_path: Path):
    with holding(tmp_path) as process:
        assert_busy(tmp_path, f"is being worked on by process {process.pid} of ")
    assert lease.holder(tmp_path) is None
    gone = lease.left_behind(tmp_path)
    assert gone and gone.pid == process.pid
    assert_mine(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_reused_pid_is_not_the_holder(tmp_path: Path):
    with lease.held(tmp_path):
        mine = lease.holder(tmp_path)
        assert mine and mine.started
        (tmp_path / NAME).rename(tmp_path / "original")
        place(tmp_path, replace(mine, token="t", started=mine.started - 1))
        assert lease.holder(tmp_path) is None
        (tmp_path / "original").rename(tmp_path / NAME)


def test_a_holder_on_another_machine_counts_until_it_is_silent(tmp_path: Path):
    place(tmp_path, OTHER, silent=EXPIRES - 20)
    assert_busy(tmp_path, "process 1 of elsewhere")
    place(tmp_path, OTHER, silent=EXPIRES + 20)
    assert lease.holder(tmp_path) is None
    assert_mine(tmp_path)


def test_a_claim_dated_in_the_future_ages_from_when_it_is_first_read(tmp_path: Path):
    """A machine may write such a date before its clock is set."""
    path = place(tmp_path, OTHER, silent=-3600)
    before = time.time()
    assert lease.holder(tmp_path) == OTHER
    assert before - 1 <= path.stat().st_mtime <= time.time() + 1
    place(tmp_path, OTHER, silent=-3600)
    assert_busy(tmp_path)
    assert path.stat().st_mtime <= time.time() + 1
    assert [file.name for file in tmp_path.iterdir()] == [NAME]


def test_a_clock_that_is_behind_leaves_the_claims_of_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = place(tmp_path, OTHER)
    true, dated = time.time, path.stat().st_mtime
    monkeypatch.setattr(time, "time", lambda: true() - 3600)
    assert lease.holder(tmp_path) == OTHER and path.stat().st_mtime == dated


def test_a_requeued_job_is_not_its_own_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    place(tmp_path, replace(OTHER, job="7"))
    monkeypatch.setenv("SLURM_JOB_ID", "8")
    assert lease.holder(tmp_path) == replace(OTHER, job="7")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert lease.holder(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"token": "x"}'])
def test_an_unreadable_claim_counts_until_it_is_silent(tmp_path: Path, text: str):
    path = place(tmp_path, OTHER)
    path.write_text(text)
    assert_busy(tmp_path)
    os.utime(path, (1, 1))
    assert_mine(tmp_path)


def test_a_claim_stays_fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lease, "BEAT", 0.01)
    with lease.held(tmp_path):
        os.utime(tmp_path / NAME, (1, 1))
        until(lambda: (tmp_path / NAME).stat().st_mtime > 2, None, 10)


def test_a_holder_that_was_taken_over_ends_at_once(tmp_path: Path):
    with holding(tmp_path, beat=0.05) as victim:
        place(tmp_path, OTHER)
        _, err = victim.communicate(timeout=20)
    assert victim.returncode == lease.BUSY
    assert "taken over by process 1 of elsewhere" in err
    assert lease.holder(tmp_path) == OTHER


@pytest.mark.parametrize("stale", [False, True], ids=["free", "dead"])
def test_one_of_many_processes_at_once_has_the_claim(tmp_path: Path, stale: bool):
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


def test_a_suspended_holder_on_this_machine_keeps_its_claim(tmp_path: Path):
    with holding(tmp_path) as process:
        process.send_signal(signal.SIGSTOP)
        os.utime(tmp_path / NAME, (1, 1))
        assert_busy(tmp_path)
