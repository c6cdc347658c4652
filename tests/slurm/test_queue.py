"""What stands in the queue: arrays within the limits, nothing twice, and nothing at all after a mistake."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import SMALL, Zoo
from tests.slurm.cluster import Cluster

LATER = "hydra.launcher.additional_parameters={begin: now+1hour}"
WORDS = ("-m", *SMALL, "mixer=faulty", "hydra/launcher=slurm", LATER, "hydra.launcher.wait=false")


@pytest.fixture
def zoo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], cluster: Cluster
) -> Iterator[Zoo]:
    monkeypatch.chdir(tmp_path)
    yield Zoo(monkeypatch, capfd)
    cluster.ask("scancel", "--user=root")


def pending(cluster: Cluster) -> list[str]:
    return [line.split()[0] for line in cluster.squeue() if line.endswith("PENDING")]


def test_arrays_and_nothing_twice(zoo: Zoo, cluster: Cluster):
    limits = (
        "hydra.launcher.max_array_size=3",
        "hydra.launcher.n_parallel=3",
        "hydra.launcher.cells_per_job=2",
    )
    code, out, err = zoo(*WORDS, *limits, "seed=range(13)")
    assert (code, err) == (0, "")
    assert "13 cells: 0 done already, 13 to run" in out and "7 jobs submitted" in out
    jobs = pending(cluster)
    assert len(jobs) == 7 and max(int(job.split("_")[1]) for job in jobs) <= 2
    ids = sorted({job.split("_")[0] for job in jobs}, key=int)
    shown = [cluster.ask("scontrol", "show", "job", job) for job in ids]
    assert [int(re.findall(r"ArrayTaskThrottle=(\d+)", text)[0]) for text in shown] == [1, 1, 1]
    code, out, err = zoo(*WORDS, *limits, "seed=range(14)")  # one more cell
    assert (code, err) == (0, "")
    assert "13 of them queued already" in out and "1 jobs submitted" in out
    assert len(pending(cluster)) == 8
    (last,) = (job for job in pending(cluster) if "_" not in job)
    assert "seed=13" not in out and f"scancel {last}" in out
    cluster.ask("scancel", ids[0])  # what a person took out of the queue is missing, and put in again
    gone = 2 * sum(job.startswith(f"{ids[0]}_") for job in jobs)
    code, out, _ = zoo(*WORDS, "seed=range(14)")
    assert code == 0 and f"{14 - gone} of them queued already" in out and f"{gone} jobs submitted" in out


REFUSED = [
    ("hydra.launcher.partition=hihg", "unknown hydra.launcher.partition hihg; did you mean high?"),
    ("hydra.launcher.gres=gpu:9", "SLURM refuses hydra.launcher's settings: Invalid generic resource"),
    ("hydra.launcher.cpus_per_task=999", "SLURM refuses hydra.launcher's settings:"),
    ("hydra.launcher.n_workers=2", "n_workers (=2) must be at most cells_per_job (=1)"),
    ("mixer.seconds=long", "mixer.seconds (='long') must be a number."),
]


@pytest.mark.parametrize(("word", "says"), REFUSED, ids=[word for word, _ in REFUSED])
def test_a_mistake_submits_nothing(zoo: Zoo, cluster: Cluster, tmp_path: Path, word: str, says: str):
    before = len(cluster.squeue())
    code, out, err = zoo(*WORDS, word)
    assert code == 2 and says in err and len(err.splitlines()) == 1
    assert "submitted" not in out
    assert len(cluster.squeue()) == before
    assert not (tmp_path / "results" / ".slurm").exists()


def test_a_partitions_limit(zoo: Zoo):
    code, _, err = zoo(*WORDS, "hydra.launcher.partition=short", "hydra.launcher.timeout_min=31")
    assert code == 2 and "hydra.launcher.timeout_min (=31) must be at most 30" in err
