"""What a launcher costs a cell: sweeps of cells that do no work, on this machine and as arrays on SLURM.

    python -m benchmarks.launcher [--cells 300] [--jobs 1000] [--out benchmarks/tables/launcher.md]

Here a cell goes through all that a cell goes through (its process, its claim, its files, its record) but the
training.  On SLURM it is the command that is measured: arrays of 1,000 jobs of a cell each.  The cluster is
simulated: sbatch, squeue and the others are scripts that accept everything (benchmarks/fake_slurm.py), and
what the jobs would write (their events, the records) is written by this program.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path

from benchmarks import fake_slurm, no_work
from benchmarks.no_work import Records, grid
from benchmarks.scale import composed, run
from zoo.bench.machine import processor
from zoo.config.cell import Cell
from zoo.config.compose import composer
from zoo.launch import process_pool, sweep
from zoo.launch.display import SweepDisplay
from zoo.launch.slurm.ledger import HOME, Ledger
from zoo.results import store

AT_ONCE = (1, 2)
WORDS = ("mixer=attention", "task=mqar_single", "experiment=smoke")
SLURM = ("hydra/launcher=slurm", "hydra.launcher.max_array_size=1000", "hydra.launcher.poll_s=5")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", type=int, default=300, help="on this machine")
    parser.add_argument("--jobs", type=int, default=1000, help="on SLURM; a multiple of 1,000")
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    args = parser.parse_args()
    rows = [here(args.cells, workers) for workers in AT_ONCE]
    with tempfile.TemporaryDirectory() as folder:
        rows += slurm(args.jobs, Path(folder))
    text = table(rows)
    print(text)
    if args.out:
        args.out.write_text(text + "\n")


def here(count: int, workers: int) -> str:
    """A table's row: from the first cell's start to the last one's end, once the imports are over."""
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as null, redirect_stdout(null):
        batch = [[*WORDS, f"seed={seed}", f"results={folder}"] for seed in range(count + 1)]
        context, cells = process_pool.start_forkserver(), sweep.plan(composer(), batch)
        process_pool._work = no_work.idle
        with SweepDisplay(total=count, done=0, how="measured") as display:
            process_pool.Pool(context, workers, display).run(cells[:1])
            began = time.perf_counter()
            failures = process_pool.Pool(context, workers, display).run(cells[1:])
            seconds = time.perf_counter() - began
    assert not failures, failures[0].reason
    return f"| {count:,} cells here, {workers} at once | {seconds:.1f} | {1000 * seconds / count:.1f} |"


def slurm(count: int, folder: Path) -> Iterator[str]:
    """Rows: submitting; the same command while all of it is queued; following it to its end."""
    found = fake_slurm.install(folder / "bin")
    os.environ["PATH"] = found["PATH"] + os.pathsep + os.environ["PATH"]
    home = folder / "results"
    words = ["-m", *grid(count), f"results={home}"]
    cells = {cell.run_id: cell for cell in composed(words[1:])}
    what = f"{count:,} jobs in arrays of 1,000"
    for done in ("submitted", "found in the queue"):
        command = run(f"{what}, {done}", "zoo.run", *words, *SLURM, "hydra.launcher.wait=false")
        yield f"| {command.what} | {command.seconds:.1f} | {1000 * command.seconds / count:.1f} |"
    jobs = threading.Thread(target=play, args=(home, cells))
    jobs.start()
    command = run(f"{what}, followed", "zoo.run", *words, *SLURM)
    jobs.join()
    yield f"| {command.what} | {command.seconds:.1f} | {1000 * command.seconds / count:.1f} |"


def play(home: Path, cells: dict[str, Cell]) -> None:
    """Do what the jobs would: say that they began, what they started, and leave a record of each cell."""
    (folder,) = (home / HOME).iterdir()
    ledger, records = Ledger.read(home, folder.name), Records()
    assert ledger is not None
    for number, share in enumerate(ledger.shares):
        events = [{"event": "began", "job_id": str(number), "note": ""}]
        for run_id in share:
            cell = cells[run_id]
            cell.folder.mkdir(exist_ok=True)
            text = json.dumps({"schema": store.SCHEMA} | records.of(cell), indent=1)
            part = cell.folder / ".part"
            part.write_text(text)
            os.replace(part, cell.folder / "result.json")
            events += [{"event": event, "run_id": run_id} for event in ("started", "finished")]
        ledger.events(number).write_text("".join(f"{json.dumps(event)}\n" for event in events))


def table(rows: Sequence[str]) -> str:
    return "\n".join(
        [
            "| cells without work | seconds | ms a cell |",
            "|---|---|---|",
            *rows,
            "",
            "Here: a worker's start to the driver's line about its record, imports and planning over.",
            "SLURM: the whole command, imports and planning included; the cluster is simulated.",
            "",
            f"`python -m benchmarks.launcher`; {processor()}, {len(os.sched_getaffinity(0))} cores, "
            f"Python {platform.python_version()}.",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
