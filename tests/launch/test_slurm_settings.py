"""The SLURM launcher without SLURM: its settings, arrays and job names. tests/slurm has a real SLURM."""

import json
from pathlib import Path

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from tests.analysis import fake
from tests.command import SMALL, TOYS, Zoo, refusal
from zoo.config.compose import composer
from zoo.config.paths import CONF
from zoo.launch.display import SweepDisplay
from zoo.launch.slurm import cluster
from zoo.launch.slurm import follow as follow_module
from zoo.launch.slurm.cluster import ENDED, Job, complaint
from zoo.launch.slurm.follow import Part, follow
from zoo.launch.slurm.ledger import Ledger, Tail, ended, share_of
from zoo.launch.slurm.settings import SlurmSettings
from zoo.launch.slurm.submit import arrays
from zoo.results import lease, store
from zoo.results.outcome import Failure

COMPOSER = composer(TOYS)
RECORD = fake.records(seeds=1)[0]  # of any cell
CELLS = [COMPOSER.cell([*SMALL, "mixer=sliding_window"])]


def settings(**changes: object) -> SlurmSettings:
    config = OmegaConf.merge(OmegaConf.load(CONF / "hydra/launcher/slurm.yaml"), changes)
    loaded = instantiate(config)
    assert isinstance(loaded, SlurmSettings)
    return loaded


BAD = [
    ({"use_srun": False}, "hydra.launcher.use_srun (=False) would lose work: SLURM signals only"),
    ({"timeout_min": 1}, "hydra.launcher.signal_delay_s (=120) must be shorter than the time limit"),
    ({"timeout_min": 0}, "hydra.launcher.timeout_min (=0) must be at least 1."),
    ({"timeout_min": "long"}, "hydra.launcher.timeout_min (='long') must be an integer."),
    ({"n_workers": 4, "cells_per_job": 2}, "n_workers (=4) must be at most cells_per_job (=2)"),
    ({"n_parallel": 0}, "hydra.launcher.n_parallel (=0) must be at least 1."),
    ({"mem_gb": 0}, "hydra.launcher.mem_gb (=0) must be positive."),
    ({"setup_lines": "module load cuda"}, "setup_lines (='module load cuda') must be a list"),
    ({"additional_parameters": {"time": 5}}, "additional_parameters.time: set hydra.launcher.timeout_min"),
    ({"additional_parameters": {"cpus_per_task": 5}}, "set hydra.launcher.cpus_per_task instead."),
    ({"additional_parameters": {"output": "x"}}, "additional_parameters.output cannot be set"),
]


@pytest.mark.parametrize(("changes", "message"), BAD, ids=[message for _, message in BAD])
def test_settings_are_refused_in_one_line(changes: dict[str, object], message: str):
    with refusal(message):
        settings(**changes).check()


def test_the_default_settings_are_valid():
    settings().check()
    usual = {"time": 60, "cpus-per-task": 1, "ntasks": 1, "nodes": 1, "requeue": True}
    assert settings().flags(CELLS) == usual


def test_settings_reach_sbatch():
    named = {"partition": "p", "account": 12, "qos": "q", "gres": "gpu:1"}
    changed = settings(**named, mem_gb=1.5, timeout_min=9, n_workers=3, cells_per_job=3)
    changed.additional_parameters = {"constraint": "a100"}
    flags = changed.flags(CELLS)
    expected = {"mem": "1536M", "time": 9, "cpus-per-task": 3, "constraint": "a100"}
    assert flags == flags | named | expected


def test_jobs_too_small_for_their_cells_are_refused():
    threads = [COMPOSER.cell([*SMALL, "mixer=sliding_window", "trainer.threads=2"])]
    with pytest.raises(ValueError, match=r"cpus_per_task \(=3\) must be at least .* \(=4\)"):
        settings(cpus_per_task=3, n_workers=2, cells_per_job=2).check_cells(threads)
    gpu = [COMPOSER.cell([*SMALL, "mixer=sliding_window", "trainer=gpu"])]
    with pytest.raises(ValueError, match=r"add hydra\.launcher\.gres=gpu:1"):
        settings().check_cells(gpu)
    settings(gres="gpu:1").check_cells(gpu)
    settings(additional_parameters={"gpus": 1}).check_cells(gpu)


def test_without_slurm_the_command_is_refused(zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    err = zoo.refused("-m", *SMALL, "mixer=sliding_window", "hydra/launcher=slurm")
    assert "hydra/launcher=slurm needs sbatch" in err and "login node" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("n_shares", [1, 5, 6, 7, 1000])
@pytest.mark.parametrize("n_parallel", [None, 1, 2, 7, 300])
def test_arrays_keep_the_sites_limit_and_ours(n_shares: int, n_parallel: int | None):
    made = arrays(n_shares, settings(max_array_size=6, n_parallel=n_parallel))
    assert [number for array in made for number in array.numbers] == list(range(n_shares))
    assert max(len(array.numbers) for array in made) <= 6
    assert len(made) == -(-n_shares // 6)
    assert all(array.at_once >= 1 for array in made)
    if n_parallel is None:
        assert all(array.after is None and array.at_once >= len(array.numbers) for array in made)
        return
    together = [array for array in made if array.after is None]  # the others come one after each of these
    assert sum(array.at_once for array in together) <= n_parallel
    assert all(array.at_once == made[array.after].at_once for array in made if array.after is not None)
    assert len({array.after for array in made if array.after is not None}) == len(made) - len(together)


def test_the_sites_array_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cluster, "ask", lambda *words: "MaxArraySize            = 1001\nMaxDBDMsgs = 1\n")
    assert cluster.max_array_size() == 1001


@pytest.mark.parametrize(
    ("limit", "minutes"),
    [("infinite", float("inf")), ("30:00", 30), ("2:00:00", 120), ("7-01:00:00", 7 * 1440 + 60)],
)
def test_partitions_and_their_limits(monkeypatch: pytest.MonkeyPatch, limit: str, minutes: float):
    monkeypatch.setattr(cluster, "ask", lambda *words: f"main|{limit}\n")
    cluster.check_partition("main", 20)
    if minutes < float("inf"):
        cluster.check_partition("main", int(minutes))
        with pytest.raises(ValueError, match=f"must be at most {minutes:.0f}, the limit of the partition"):
            cluster.check_partition("main", int(minutes) + 1)
    with pytest.raises(ValueError, match=r"unknown hydra\.launcher\.partition mian; did you mean main\?"):
        cluster.check_partition("mian", 20)


def test_complaints_in_one_line():
    text = "sbatch: error: Invalid generic resource\nallocation failure: not available\nTry --help\n"
    assert complaint(text) == "Invalid generic resource; allocation failure: not available"
    assert complaint("usage") == ""


@pytest.mark.parametrize(
    ("name", "job_id", "share"),
    [
        ("zoo-20261121-101010-abcd.0", "12", ("20261121-101010-abcd", 0)),
        ("zoo-20261121-101010-abcd.6", "12_3", ("20261121-101010-abcd", 9)),
        ("zoo-keeper", "12_3", None),
        ("train.3", "12_3", None),
    ],
)
def test_a_job_name_identifies_submission_and_share(name: str, job_id: str, share: tuple[str, int] | None):
    assert share_of(Job(name, job_id, "PENDING", "None")) == share


@pytest.mark.parametrize(
    ("state", "live"), [("PENDING", True), ("RUNNING", True), ("PREEMPTED", True), ("NODE_FAIL", False)]
)
def test_a_job_state_is_live_or_not(state: str, live: bool):
    assert Job("zoo-a.0", "1", state, "None").live is live
    assert len(set(ENDED)) == 9


def test_a_ledger_is_read_as_it_was_written(tmp_path: Path):
    made = Ledger.new(tmp_path, [CELLS, CELLS], {"git_clean": False})
    assert Ledger.read(tmp_path, made.submission_id) == made
    assert made.shares == [[CELLS[0].run_id]] * 2
    assert share_of(Job(made.job_name(1), "7_1", "RUNNING", "None")) == (made.submission_id, 2)
    assert Ledger.read(tmp_path, "another") is None


def test_events_are_read_once_and_whole(tmp_path: Path):
    path = tmp_path / "events"
    tail = Tail(path)
    assert list(tail.new()) == []
    events = (("finished", "a"), ("started", "b"), ("failed", "c"))
    lines = [{"event": event, "run_id": run_id} for event, run_id in events]
    first, second, third = (f"\n{json.dumps(line)}\n" for line in lines)
    path.write_text(first + second[:9])  # the writer is in the middle of a line
    assert list(tail.new()) == lines[:1]
    path.write_text(first + second[:9] + third)  # it was killed there; the next one goes on
    assert list(tail.new()) == lines[2:]
    assert list(tail.new()) == []
    assert ended(Tail(path).new()) == {"a", "c"}


@pytest.fixture
def part(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> Part:
    """Return the job of one cell that has a folder."""
    monkeypatch.setattr(follow_module, "SETTLE_S", 0.0)
    (cell,) = CELLS
    cell.folder.mkdir(parents=True)
    ledger = Ledger.new(cell.folder.parent, [CELLS], {})
    return Part(ledger, ledger.job_name(0), 0, {cell.run_id: cell})


def followed(part: Part) -> list[Failure]:
    with SweepDisplay(total=1, done=0, how="on SLURM") as display:
        return follow([part], display, poll_s=0.05)


@pytest.mark.parametrize("recorded", [True, False], ids=["with a record", "without"])
@pytest.mark.parametrize("state", ["COMPLETED", "NODE_FAIL", "gone"])
def test_a_lost_job_fails_its_cell(part: Part, monkeypatch: pytest.MonkeyPatch, state: str, recorded: bool):
    """The record decides: SLURM may call a lost job COMPLETED, or forget it."""
    (cell,) = CELLS
    if recorded:
        store.finish(cell.folder, RECORD | {"run_id": cell.run_id})
    jobs = [] if state == "gone" else [Job(part.ledger.job_name(0), "7", state, "None")]
    monkeypatch.setattr(cluster, "jobs", lambda names: jobs)
    failures = followed(part)
    assert [failure.cell for failure in failures] == ([] if recorded else CELLS)
    assert (cell.folder / "error.txt").exists() is not recorded
    if not recorded:
        assert "before this cell had a result" in failures[0].reason


def test_a_cell_of_another_driver_has_not_failed(part: Part, monkeypatch: pytest.MonkeyPatch):
    """The job is gone but another process holds the cell, so the driver waits for that one."""
    (cell,) = CELLS
    calls = []

    def jobs(names: list[str]) -> list[Job]:
        calls.append(names)
        if len(calls) == 1:
            raise cluster.NoAnswer("squeue did not answer")  # nothing follows from that
        if len(calls) == 4:
            store.finish(cell.folder, RECORD | {"run_id": cell.run_id})
        return []

    monkeypatch.setattr(cluster, "jobs", jobs)
    with lease.held(cell.folder):
        assert followed(part) == []
    assert len(calls) == 4 and not (cell.folder / "error.txt").exists()
