"""Jobs in the queue: arrays within the limits, no cell twice, and nothing after a mistake."""

import re
from pathlib import Path

import pytest
from submitit.core.utils import FailedSubmissionError

from tests.command import SMALL, Zoo
from tests.slurm.cluster import Cluster
from zoo.launch.slurm import submit

LATER = "hydra.launcher.additional_parameters={begin: now+1hour}"
WORDS = ("-m", *SMALL, "mixer=faulty", "hydra/launcher=slurm", LATER, "hydra.launcher.wait=false")


def pending(cluster: Cluster) -> list[str]:
    return [line.split()[0] for line in cluster.squeue() if line.endswith("PENDING")]


def test_a_sweep_becomes_arrays_and_no_cell_is_queued_twice(zoo: Zoo, cluster: Cluster):
    limits = [f"hydra.launcher.{word}" for word in ("max_array_size=3", "n_parallel=3", "cells_per_job=2")]
    out = zoo.done(*WORDS, *limits, "seed=range(13)")
    assert "13 cells: 0 done already, 13 to run" in out and "7 jobs submitted" in out
    jobs = pending(cluster)
    assert len(jobs) == 7 and max(int(job.split("_")[1]) for job in jobs) <= 2
    ids = sorted({job.split("_")[0] for job in jobs}, key=int)
    shown = [cluster.ask("scontrol", "show", "job", job) for job in ids]
    assert [int(re.findall(r"ArrayTaskThrottle=(\d+)", text)[0]) for text in shown] == [1, 1, 1]
    out = zoo.done(*WORDS, *limits, "seed=range(14)")  # one more cell
    assert "13 of them queued already" in out and "1 job submitted" in out
    assert len(pending(cluster)) == 8
    (last,) = (job for job in pending(cluster) if "_" not in job)
    assert "seed=13" not in out and f"scancel {last}" in out
    cluster.ask("scancel", ids[0])  # cancelled by a person: the next command submits them again
    cancelled = 2 * sum(job.startswith(f"{ids[0]}_") for job in jobs)
    out = zoo.done(*WORDS, "seed=range(14)")
    assert f"{14 - cancelled} of them queued already" in out and f"{cancelled} jobs submitted" in out


def test_cells_wait_for_the_job_of_the_cell_that_they_start_from(zoo: Zoo, cluster: Cluster):
    start = "start={experiment:smoke,d_model:16,task.vocab_size:128,mixer:faulty}"
    for seeds, submitted in (("seed=0,1", 4), ("seed=0,1,2", 2)):
        out = zoo.done(*WORDS, "mixer.way=none", seeds, start)
        jobs = [line for line in out.splitlines() if " submitted (" in line]
        assert sum(int(line.split(": ")[1].split()[0]) for line in jobs) == submitted
    shown = [cluster.ask("scontrol", "show", "job", job) for job in pending(cluster)]
    held = [text for text in shown if "Dependency=afterany:" in text]
    assert len(shown) == 6 and len(held) == 3


def test_settings_reach_slurm(zoo: Zoo, cluster: Cluster, tmp_path: Path):
    settings = (
        *("partition=high", "account=lab", "timeout_min=9", "mem_gb=1.5", "gres=gpu:1"),
        *("cells_per_job=2", "n_workers=2", "signal_delay_s=60", "setup_lines=[module load cuda]"),
    )
    zoo.done(*WORDS, *(f"hydra.launcher.{word}" for word in settings), "trainer.threads=2", "seed=0,1")
    (job,) = pending(cluster)
    shown = cluster.ask("scontrol", "show", "job", job)
    for word in (
        *("Partition=high", "Account=lab", "TimeLimit=00:09:00", "MinMemoryNode=1.50G", "gpu:1"),
        *("CPUs/Task=4", "NumTasks=1", "NumNodes=1", "Requeue=1"),
    ):
        assert word in shown, shown
    (script,) = tmp_path.glob("results/.slurm/*/*_submission.sh")
    assert "\nmodule load cuda\n" in script.read_text() and "--signal=USR2@60" in script.read_text()


def test_refused_arrays_are_left_for_later(zoo: Zoo, cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    """The first array runs; the rest is reported, and submitted by the next command."""
    submit_array = submit._submit_array

    def submit_the_first(ledger, shares, array, *rest):
        if array.start > 0:
            raise FailedSubmissionError("sbatch: error: Job violates accounting/QOS policy")
        return submit_array(ledger, shares, array, *rest)

    monkeypatch.setattr(submit, "_submit_array", submit_the_first)
    code, out, err = zoo(*WORDS, "seed=range(5)", "hydra.launcher.max_array_size=3")
    assert (code, err) == (1, "")
    assert "2 jobs submitted" in out and len(pending(cluster)) == 2
    assert "3 cells are not submitted: Job violates accounting/QOS policy; the same command submits" in out
    monkeypatch.setattr(submit, "_submit_array", submit_array)
    out = zoo.done(*WORDS, "seed=range(5)")
    assert "2 of them queued already" in out and "3 jobs submitted" in out


@pytest.mark.parametrize("clean", [True, False, None])
def test_uncommitted_code_is_reported(zoo: Zoo, monkeypatch: pytest.MonkeyPatch, clean: bool | None):
    monkeypatch.setattr(submit, "git", lambda: ("0123456789abcdef" * 2, clean))
    out = zoo.done(*WORDS)
    assert "code 0123456789" in out
    assert ("with uncommitted changes: the records say so" in out) is (clean is False)


REFUSED = [
    ("hydra.launcher.partition=hihg", "unknown hydra.launcher.partition hihg; did you mean high?"),
    ("hydra.launcher.gres=tpu:1", "SLURM refuses hydra.launcher's settings: Invalid generic resource"),
    ("hydra.launcher.cpus_per_task=999", "SLURM refuses hydra.launcher's settings:"),
    ("hydra.launcher.n_workers=2", "n_workers (=2) must be at most cells_per_job (=1)"),
    ("mixer.seconds=long", "mixer.seconds (='long') must be a number."),
    (
        "hydra.launcher.partition=short hydra.launcher.timeout_min=31",
        "hydra.launcher.timeout_min (=31) must be at most 30",
    ),
]


@pytest.mark.parametrize(("words", "message"), REFUSED, ids=[words for words, _ in REFUSED])
def test_a_mistake_submits_nothing(zoo: Zoo, cluster: Cluster, tmp_path: Path, words: str, message: str):
    before = len(cluster.squeue())
    code, out, err = zoo(*WORDS, *words.split())
    assert code == 2 and message in err and len(err.splitlines()) == 1
    assert "submitted" not in out
    assert len(cluster.squeue()) == before
    assert not (tmp_path / "results" / ".slurm").exists()
