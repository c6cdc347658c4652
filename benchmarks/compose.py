"""Composing, hashing and checking 1,000 cells: what a sweep does before its first cell starts.

    python -m benchmarks.compose [--out benchmarks/tables/compose.md]

Beside it, Hydra's own composition of the same overrides, timed on some of them and scaled up.  Hydra's
sweeper composes every cell twice.
"""

import argparse
import platform
import time
from itertools import product
from pathlib import Path

import hydra

from zoo.bench.machine import processor
from zoo.config.compose import composer
from zoo.config.paths import CONF
from zoo.launch.sweep import plan

MIXERS = sorted(path.stem for path in (CONF / "mixer").glob("*.yaml"))[:10]
GRID = product(MIXERS, (32, 64, 128, 256), (0.001, 0.002, 0.004, 0.008, 0.016), range(5))
CELLS = [[f"mixer={m}", f"d_model={d}", f"lr={lr}", f"seed={seed}"] for m, d, lr, seed in GRID]
SAMPLE = 40


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    args = parser.parse_args()
    text = report()
    print(text)
    if args.out:
        args.out.write_text(text + "\n")


def report() -> str:
    start = time.perf_counter()
    cells = plan(composer(), CELLS)
    ours = time.perf_counter() - start
    assert len({cell.run_id for cell in cells}) == len(CELLS) == 1000
    theirs = hydras() * len(CELLS)
    return "\n".join(
        [
            "| 1,000 cells | seconds |",
            "|---|---|",
            f"| composed, hashed, every model built on the meta device | {ours:.1f} |",
            f"| Hydra's composition alone, once ({SAMPLE} cells, scaled) | {theirs:.1f} |",
            "",
            f"`python -m benchmarks.compose`; {processor()}, one thread; hydra-core {hydra.__version__}, "
            f"Python {platform.python_version()}.",
        ]
    )


def hydras() -> float:
    """Seconds a cell."""
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        hydra.compose("config", overrides=CELLS[0])
        start = time.perf_counter()
        for overrides in CELLS[:: len(CELLS) // SAMPLE]:
            hydra.compose("config", overrides=overrides)
        return (time.perf_counter() - start) / SAMPLE


if __name__ == "__main__":
    main()
