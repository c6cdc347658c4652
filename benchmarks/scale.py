"""Large sweeps, from outside: what a person waits for at 10,000 cells and 100,000 records.

    python -m benchmarks.scale [--cells 10000] [--records 100000] [--out benchmarks/tables/scale.md]

The cells are a grid of mixers x d_model x learning rate x seed.  Their records hold what records hold, though
nothing was trained.  Each row is one command as typed, its start and its imports included.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from benchmarks.no_work import Records, grid
from zoo.bench.machine import processor
from zoo.config.cell import Cell
from zoo.config.compose import composer
from zoo.config.grids import cells
from zoo.results import manifest, store


@dataclass(frozen=True)
class Run:
    """One command: what it was for, how long it took, how long it computed, the most memory that it held."""

    what: str
    seconds: float
    cpu_seconds: float
    mebibytes: float


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", type=int, default=10_000, help="a multiple of 1,000")
    parser.add_argument("--records", type=int, default=100_000, help="at least as many")
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = table(list(measured(args.cells, args.records, Path(folder))))
    print(text)
    if args.out:
        args.out.write_text(text + "\n")


def measured(n_cells: int, n_records: int, folder: Path) -> Iterator[Run]:
    home = folder / "results"
    words = [*grid(n_cells), f"results={home}"]
    yield run(f"`zoo.plan -m ...`, {n_cells:,} cells", "zoo.plan", "-m", *words)
    wanted = composed(words)
    assert len(wanted) == n_cells
    left = write_records(wanted, n_cells - n_cells // 5)
    for cell in islice(left, n_cells // 10):
        store.fail(cell.folder, f"Traceback (most recent call last):\n  File x\nValueError: {cell.mixer}")
    yield run(f"`zoo.status`, {n_cells:,} cells: done, failed, pending", "zoo.status", str(home))
    write_records(wanted, n_cells)
    yield run(f"`zoo.run -m ...` again, all {n_cells:,} done", "zoo.run", "-m", *words)
    yield run(f"`zoo.collect`, {n_cells:,} records", "zoo.collect", str(home))
    multiply([cell.folder for cell in wanted], n_records)
    yield run(f"`zoo.collect`, {n_records:,} records", "zoo.collect", str(home))


def run(what: str, module: str, *words: str) -> Run:
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", module, *words], stdout=subprocess.DEVNULL)
    most = 0.0
    while True:
        time.sleep(0.02)
        most = max(most, held(process.pid))
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        if ended:
            break
    assert status == 0, what
    return Run(what, time.perf_counter() - began, usage.ru_utime + usage.ru_stime, most)


def held(pid: int) -> float:
    """The most MiB that a process has held so far.  (ru_maxrss begins with those of the parent.)"""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return max((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), default=0.0)


def composed(words: Sequence[str]) -> list[Cell]:
    ours = composer()
    return [ours.cell(line) for line in cells({"axes": {}, "grids": [], "exclude": []}, words, ours.loader)]


def write_records(wanted: Sequence[Cell], count: int) -> Iterator[Cell]:
    """The first `count` of the cells are done, and the sweep is written down; the others."""
    manifest.write(wanted)
    records = Records()
    for cell in wanted[:count]:
        cell.folder.mkdir(exist_ok=True)
        text = json.dumps({"schema": store.SCHEMA} | records.of(cell), indent=1)
        (cell.folder / "result.json").write_text(text)  # `results.finish` would wait for the disk each time
    return iter(wanted[count:])


def multiply(folders: Sequence[Path], count: int) -> None:
    """Copies under other names, until there are `count` records."""
    for i in range(len(folders), count):
        original = folders[i % len(folders)]
        copy = original.with_name(f"{original.name}{i:06d}")
        copy.mkdir()
        text = (original / "result.json").read_text().replace(original.name, copy.name)
        (copy / "result.json").write_text(text)


def table(runs: Sequence[Run]) -> str:
    return "\n".join(
        [
            "| command | seconds | of a processor | MiB, at most |",
            "|---|---|---|---|",
            *(f"| {r.what} | {r.seconds:.1f} | {r.cpu_seconds:.1f} | {r.mebibytes:.0f} |" for r in runs),
            "",
            f"`python -m benchmarks.scale`; {processor()}, one thread, Python {platform.python_version()}, "
            f"{shutil.disk_usage(tempfile.gettempdir()).total >> 30} GiB disk.",
        ]
    )


if __name__ == "__main__":
    main()
