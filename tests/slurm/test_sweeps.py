"""The user's command on a real SLURM: whatever happens to a job, every record is whole and true."""

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest

from analysis import pareto
from tests.command import SMALL, Zoo, finish, start, until
from tests.disturbed import same_numbers
from tests.slurm.cluster import Cluster
from tests.toys.faulty import HEALED, PACE
from zoo.launch.slurm import follow
from zoo.results import lease, manifest, store, table

SLURM = ("hydra/launcher=slurm", "hydra.launcher.poll_s=1")
WAYS = ("none", "raise", "exit", "kill")
LONG = ("mixer.seconds=0.3", "max_examples=64", "optim.eval_batch_size=64", "trainer.checkpoint_every=2")
ALONE = ("-m", *SMALL, *LONG, "mixer=faulty")
PATIENCE_S = 240


def run(place: Path, *words: str) -> tuple[int, str, str]:
    return finish(start(*words, cwd=place), PATIENCE_S)


def folder_of(place: Path, way: str, seed: int) -> Path | None:
    for path in place.glob("results/faulty-*/config.yaml"):
        text = path.read_text()
        if f"way: {way}\n" in text and f"\nseed: {seed}\n" in text:
            return path.parent
    return None


def test_the_users_command_and_its_picture(zoo: Zoo, tmp_path: Path):
    words = ("-m", "experiment=smoke", "mixer=based,sliding_window", "d_model=16", *SLURM)
    words = (*words, "hydra.launcher.cells_per_job=2", "hydra.launcher.n_workers=2")
    words = (*words, "hydra.launcher.setup_lines=[touch set_up]")
    out = zoo.done(*words, "hydra.launcher.wait=false")
    assert "2 cells: 0 done already, 2 to run" in out and "1 job submitted" in out
    assert re.search(r"^code [0-9a-f]{10}", out, re.MULTILINE)
    (submission,) = tmp_path.glob("results/.slurm/*/submission.json")
    (sweep,) = manifest.read_all(tmp_path / "results", [])
    assert f"sweep {sweep}: " in out and f"logs {submission.parent}" in out
    about = json.loads(submission.read_text())
    assert len(about["git_revision"]) == 40
    assert ("with uncommitted changes: the records say so" in out) is (about["git_clean"] is False)
    out = zoo.done(*words)  # follows what is in the queue
    assert "submitted" not in out
    assert "accuracy on the test split" in out
    frame = table.load(tmp_path / "results")
    assert set(frame.mixer) == {"based", "sliding_window"}
    records = [store.read(folder) for folder in tmp_path.glob("results/*-*")]
    assert {record["git_revision"] for record in records} == {about["git_revision"]}
    assert (tmp_path / "set_up").exists()
    pareto.main(["results"])
    assert [*tmp_path.rglob("*.png")] and [*tmp_path.rglob("*.pdf")]


def test_drivers_here_and_on_slurm_share(tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(PACE, "0.3")
    grid = (*ALONE, "seed=0,1,2,3")
    drivers = [start(*grid, "hydra.launcher.n_workers=1", cwd=tmp_path)]
    limits = ("hydra.launcher.cells_per_job=4", "hydra.launcher.n_workers=1")
    drivers.append(start(*grid, *SLURM, *limits, cwd=tmp_path))
    holders: dict[str, set[str]] = {}
    while any(driver.poll() is None for driver in drivers):
        for path in tmp_path.glob("results/*/claim.json"):
            if holder := lease.holder(path.parent):
                holders.setdefault(path.parent.name, set()).add(str(holder))
        time.sleep(0.02)
    ends = [finish(driver) for driver in drivers]
    assert [(code, err) for code, _, err in ends] == [(0, "")] * 2, ends
    assert [len(each) for each in holders.values()] == [1] * 4
    assert all(out.count(": ok  test") == 4 for _, out, _ in ends)


@contextmanager
def meanwhile(act: Callable[[], object]) -> Iterator[None]:
    """Run `act` in another thread while the command runs in this one."""
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(act)
        yield
        done.result(PATIENCE_S)


def test_cancelled_or_out_of_time_once_too_often(
    zoo: Zoo, tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    """Neither cell looks finished, and each can be completed without SLURM."""
    monkeypatch.setattr(follow, "SETTLE_S", 2.0)  # no network between us
    limits = ("hydra.launcher.timeout_min=5", "hydra.launcher.max_num_timeout=0")

    def end_both_jobs() -> None:
        until(lambda: saved(tmp_path, 0) and saved(tmp_path, 1), None, PATIENCE_S)
        cluster.ask("scancel", cluster.job(0))
        cluster.ask("scancel", "--signal=USR2", cluster.job(1))

    with meanwhile(end_both_jobs):
        code, out, err = zoo(*ALONE, "seed=0,1", *SLURM, *limits)
    assert (code, err) == (1, "") and out.count("FAILED") == 2
    assert "ended (CANCELLED) before this cell had a result" in out
    assert "timed-out too many times" in out
    assert [*tmp_path.glob("results/*/result.json")] == []
    monkeypatch.setenv(PACE, "0")
    for seed in (0, 1):
        zoo.done(*ALONE[1:], f"seed={seed}")
    assert [*tmp_path.glob("results/*/error.txt")] == []


SIGNALS = (("scancel", "--signal=USR2"), ("scontrol", "requeue"), ("scancel", "--signal=TERM"))
FEW_SIGNALS = SIGNALS[1:]  # the last job of an array has the number of the array
LIMITED = ("seed=3", "hydra.launcher.timeout_min=2", "hydra.launcher.signal_delay_s=45")
CHEAP = ("seed=4", "hydra.launcher.partition=cheap", "hydra.launcher.gres=gpu:1")


def send_away(place: Path, cluster: Cluster, signals: Sequence[tuple[str, ...]]) -> None:
    """Interrupt the job of each seed once, by its own command, when its good cell has a checkpoint."""
    left = dict(enumerate(signals))
    while left:
        until(lambda: any(saved(place, seed) for seed in left), None, PATIENCE_S)
        seed = next(seed for seed in left if saved(place, seed))
        cluster.ask(*left.pop(seed), cluster.job(seed))


def test_jobs_that_are_sent_away_lose_nothing(
    zoo: Zoo, tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    """Two jobs, each of a good cell and one that dies, are interrupted; then the bad cells are healed.

    A requeue sends SIGTERM and no more; a SIGTERM without one must be answered with what SIGUSR2 does, which
    SLURM sends before the time limit and, on some sites, a preemption.
    """
    monkeypatch.setattr(follow, "SETTLE_S", 2.0)  # no network between us
    grid = ("seed=0,1", "mixer.way=none,kill")
    slurm = (*ALONE, *grid, *SLURM, "hydra.launcher.cells_per_job=2", "hydra.launcher.n_workers=2")
    with meanwhile(lambda: send_away(tmp_path, cluster, FEW_SIGNALS)):
        code, out, err = zoo(*slurm)
    assert (code, err) == (1, "")
    assert lives(tmp_path, 0) == [(2, True)] * 2
    check_failures(tmp_path, out, ("kill",), 2)
    monkeypatch.setenv(HEALED, "1")
    monkeypatch.setenv(PACE, "0")
    assert "4 cells: 2 done already, 2 to run" in zoo.done(*slurm)
    for seed, way in product((0, 1), ("none", "kill")):
        zoo.done(*ALONE[1:], f"seed={seed}", f"mixer.way={way}", "results=undisturbed")
    same_records(tmp_path, 4)


@pytest.mark.slow
def test_nothing_is_lost_whatever_happens(tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    """Three jobs, each of a good cell and three bad ones, are interrupted, each by another command.

    A fourth job lives through its time limit, a fifth is preempted by a partition above its own.  Once the
    bad cells are healed, all jobs lose their node.
    """
    monkeypatch.setenv(PACE, "6")
    limited = start(*ALONE, *SLURM, *LIMITED, "hydra.launcher.wait=false", cwd=tmp_path)
    monkeypatch.setenv(PACE, "2")  # slow enough for the third signal to meet its cell on a busy machine
    cheap = start(*ALONE, *SLURM, *CHEAP, cwd=tmp_path)
    grid = ("-m", *SMALL, *LONG, "mixer=faulty", "seed=0,1,2", f"mixer.way={','.join(WAYS)}")
    slurm = (*grid, *SLURM, "hydra.launcher.cells_per_job=4", "hydra.launcher.n_workers=4")
    process = start(*slurm, cwd=tmp_path)
    send_away(tmp_path, cluster, SIGNALS)
    until(lambda: saved(tmp_path, 4), cheap, PATIENCE_S)
    cluster.ask("sbatch", "-p", "high", "--gres=gpu:1", "--output=/dev/null", "--wrap=sleep 1")
    for submitted, expected in ((limited, 0), (cheap, 0), (process, 1)):
        code, out, err = finish(submitted, PATIENCE_S)
        assert (code, err) == (expected, "")
    assert lives(tmp_path, 0) == [(2, True)] * 3
    assert lives(tmp_path, 4) == [(2, True)]
    check_failures(tmp_path, out, WAYS[1:], 3)
    monkeypatch.setenv(HEALED, "1")
    monkeypatch.setenv(PACE, "0.5")
    lose_the_node(tmp_path, cluster, *slurm)
    code, out, err = run(tmp_path, *ALONE, *SLURM, "seed=3,4")  # follows what is left of them
    assert (code, err) == (0, "") and "submitted" not in out
    ((times, resumed),) = lives(tmp_path, 3)
    assert times > 1 and resumed
    logs = tmp_path.glob("results/.slurm/*/*.out")
    assert any("this job is timed-out" in path.read_text() for path in logs)
    monkeypatch.setenv(PACE, "0")
    for words in (grid, (*ALONE, "seed=3,4")):
        code, _, err = run(tmp_path, *words, "results=undisturbed", "hydra.launcher.n_workers=4")
        assert (code, err) == (0, "")
    same_records(tmp_path, 14)


def lose_the_node(place: Path, cluster: Cluster, *slurm: str) -> None:
    """Run the command again and lose the node meanwhile, once the job at its time limit has been requeued."""
    until(lambda: lives(place, 3)[0][0] > 1, None, PATIENCE_S)
    process = start(*slurm, cwd=place)
    until(lambda: all(saved(place, seed, "raise") for seed in range(3)), process, PATIENCE_S)
    cluster.lose_the_node()
    code, out, err = finish(process, PATIENCE_S)
    assert (code, err) == (0, "")
    assert "12 cells: 3 done already, 9 to run" in out


def saved(place: Path, seed: int, way: str = "none") -> bool:
    folder = folder_of(place, way, seed)
    return folder is not None and (folder / "last.ckpt").exists()


def check_failures(place: Path, out: str, ways: Sequence[str], seeds: int) -> None:
    """Check that each failed cell is reported in its folder and in the table, and no other."""
    causes = {"raise": "RuntimeError: this mixer", "exit": "SystemExit", "kill": "killed by SIGKILL"}
    assert "failed; the same command tries them again" in out
    for seed in range(seeds):
        good = folder_of(place, "none", seed)
        assert good and store.is_done(good) and not (good / "error.txt").exists()
        for way in ways:
            folder = folder_of(place, way, seed)
            assert folder and not store.is_done(folder)
            assert causes[way] in (folder / "error.txt").read_text()
            assert f"seed={seed} mixer.way={way}: FAILED" in out
    assert out.count("FAILED") == seeds * len(ways)


def same_records(place: Path, cells: int) -> None:
    disturbed, undisturbed = (sorted(place.glob(f"{home}/faulty-*")) for home in ("results", "undisturbed"))
    assert len(disturbed) == cells
    same_numbers(disturbed, undisturbed)
    assert not [*place.glob("results/faulty-*/error.txt")]


def lives(place: Path, seed: int) -> list[tuple[int, bool]]:
    """Return, for each job of the seed's first submission, how often it began and whether a cell resumed."""
    for path in sorted(place.glob("results/.slurm/*/submission.json")):
        folder = folder_of(place, "none", seed)
        if folder and folder.name in path.read_text():
            texts = [events.read_text() for events in sorted(path.parent.glob("events/*.jsonl"))]
            return [(text.count('"event": "began"'), "resumed at step" in text) for text in texts]
    return []
