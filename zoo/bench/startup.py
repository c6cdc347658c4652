"""Time what comes before the first step: imports, composing a config, its checks, building a model."""

import subprocess
import sys
import time

from zoo.bench.machine import Machine
from zoo.bench.rows import Floor, Row, compared, timed
from zoo.config.cell import Cell

IMPORTS = "torch imported, no more"


def startup(cell: Cell, machine: Machine, rounds: int) -> list[Row]:
    """Time whole processes, on the wall clock; the imports alone are the floor."""
    words = cell.overrides
    commands = {
        "the cell composed, checked and its model built": [sys.executable, "-c", BUILD, *words],
        "python -m zoo.plan of the cell": [sys.executable, "-m", "zoo.plan", *words],
        IMPORTS: [sys.executable, "-c", "import torch"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(
                command, check=True, stdout=subprocess.DEVNULL, start_new_session=True
            )  # a session of its own: Ctrl-C reaches only this process, which then kills the child
            times[name].append(time.perf_counter() - start)
    floor = Floor(seconds=min(times[IMPORTS]), made_of="the imports alone, the fastest of this run")
    measured, sizes = timed(times, 1, lambda _: floor), " ".join(words) or "the defaults"
    return compared("startup", "", sizes, "starts", measured, IMPORTS, machine, clock="wall")


BUILD = """
import sys
from zoo.config.compose import compose
from zoo.model import build_model
from zoo.training.check import check
cell = compose(sys.argv[1:])
check(cell)
build_model(cell)
"""
