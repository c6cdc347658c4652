"""Large sweeps: what is shown stays short, and the benchmarks' cells of no work are cells."""

from pathlib import Path

import pytest

from benchmarks import fake_slurm, launcher, no_work, scale
from tests.analysis import fake
from zoo.config.compose import composer
from zoo.config.grids import cells
from zoo.launch import display, score_tables
from zoo.results import store, table
from zoo.results.outcome import Failure


def test_the_tables_at_the_end_are_cut_short(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    for module in (display, score_tables):
        monkeypatch.setattr(module, "MOST_ROWS", 5)
    records = [record | {"knob": {}} for record in fake.records(seeds=1)]
    assert score_tables.result_table(records).row_count == 5
    shown = display.SweepDisplay(total=51, done=51, how="")
    failures = [Failure(composer().cell([f"seed={seed}"]), "why") for seed in range(7)]
    shown.report(records, failures)
    out = capsys.readouterr().out
    assert "and 46 more: python -m zoo.collect writes them all" in out
    assert out.count("why") == 5 and "and 2 more: python -m zoo.status counts them by error" in out
    shown.report(records[:5], failures[:5])
    assert "more" not in capsys.readouterr().out


def test_records_of_no_work_are_read_as_all_are(tmp_path: Path):
    wanted = scale.composed(["mixer=attention,hyena", "seed=range(3)", f"results={tmp_path}"])
    left = list(scale.write_records(wanted, 5))
    assert left == wanted[5:]
    frame = table.load(tmp_path)
    assert frame.run_id.nunique() == 5 and set(frame.accuracy) == {0.5}
    assert {c.run_id: (c.config["seed"], c.config["lr"]) for c in wanted[:5]} == {
        run_id: (seed, lr) for run_id, seed, lr in zip(frame.run_id, frame.seed, frame.lr, strict=True)
    }
    scale.multiply([wanted[0].folder], 3)
    assert len(store.records(tmp_path)) == 7


def test_a_grid_has_as_many_cells_as_it_says():
    found = cells({"axes": {}, "grids": [], "exclude": []}, no_work.grid(2000), composer().loader)
    assert len({tuple(words) for words in found}) == 2000


def test_an_idle_worker_leaves_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("zoo.training.train.train", no_work.untrained)
    from zoo.launch.run_cell import run_cell

    cell = composer().cell([*launcher.WORDS, f"results={tmp_path}"])
    assert run_cell(cell, lambda progress: None) == store.read(cell.folder)


def test_the_simulated_slurm_queues_every_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from zoo.launch.slurm import cluster

    monkeypatch.setenv("PATH", fake_slurm.install(tmp_path / "bin")["PATH"], prepend=":")
    for array in ("#SBATCH --array=0-2%3\n", ""):
        script = tmp_path / "script.sh"
        script.write_text(f"#!/bin/bash\n{array}#SBATCH --job-name=zoo-x.7\n")
        cluster.ask("sbatch", str(script))
    cluster.check_commands()
    cluster.check_accepted({"time": 3})
    assert cluster.max_array_size() == 1001
    assert [(job.name, job.job_id, job.state) for job in cluster.jobs()] == [
        ("zoo-x.7", "1_0", "RUNNING"),
        ("zoo-x.7", "1_1", "RUNNING"),
        ("zoo-x.7", "1_2", "RUNNING"),
        ("zoo-x.7", "2", "RUNNING"),
    ]
