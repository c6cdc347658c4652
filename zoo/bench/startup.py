"""What a person waits for before the first step: imports, a config, its checks, a model."""

import subprocess
import sys
import time
from collections.abc import Sequence

from zoo.bench.machine import Machine
from zoo.bench.rows import Floor, Row, Timed, compared

IMPORTS = "torch imported, no more"


def startup(words: Sequence[str], machine: Machine, rounds: int) -> list[Row]:
    """Seconds of whole processes, on the wall clock; the imports alone are the floor."""
    commands = {
        "the cell composed, checked and its model built": [sys.executable, "-c", BUILD, *words],
        "python -m zoo.plan of the cell": [sys.executable, "-m", "zoo.plan", *words],
        IMPORTS: [sys.executable, "-c", "import torch"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            began = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            times[name].append(time.perf_counter() - began)
    floor = Floor(seconds=min(times[IMPORTS]), made_of="the imports alone, the fastest of this run")
    timed = [Timed(implementation=name, times=t, units=1, floor=floor) for name, t in times.items()]
    return compared(
        "startup", "", " ".join(words) or "the defaults", "starts", timed, IMPORTS, machine, clock="wall"
    )


BUILD = """
import sys
from zoo.config.compose import compose
from zoo.model import build_model
from zoo.training.check import check
cell = compose(sys.argv[1:])
check(cell)
build_model(cell)
"""
