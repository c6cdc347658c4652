"""How fast MQAR rows are made, on one thread, against the reference's way in numpy.

    python -m benchmarks.data [--out benchmarks/tables/data.md]

CPU seconds, which on an idle machine are seconds; the best of three.  numpy's are of a sample, scaled: it
works row by row, so time is in proportion to rows.  Memory is the growth of the process's peak.
"""

import argparse
import platform
import resource
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from zoo.batches import BatchStream
from zoo.bench.machine import processor
from zoo.tasks.__main__ import build
from zoo.tasks.base import Task
from zoo.tasks.mqar_numpy_compat import reference_rows

SAMPLE = 1000  # rows a segment that numpy makes
CASES = [(64, 4, 100_000, 1.0), (256, 64, 20_000, 1.0)]  # seq_len, num_kv_pairs, rows, target in seconds
MIXTURE_TARGET = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    out = parser.parse_args().out
    torch.set_num_threads(1)
    text = report()
    print(text)
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n")


def report() -> str:
    """The table in Markdown."""
    before = peak_mb()
    mixture = mixture_line(build("mqar_based", [], seed=0))  # first: the peak is the process's
    growth = peak_mb() - before
    lines = [
        "| rows of MQAR, vocabulary 8192 | target s | filler safe s | random s | numpy s | times faster |",
        "|---|---|---|---|---|---|",
        *(case_line(*case) for case in CASES),
        mixture,
        "",
        f"Seconds of CPU time. Peak memory of the mixture: {growth:.0f} MB above the start.",
        f"numpy: the reference's calls without its filler, {SAMPLE} rows a segment, scaled to all.",
        f"`python -m benchmarks.data`, one thread of {processor()}, {versions()}.",
    ]
    return "\n".join(lines)


def case_line(seq_len: int, num_kv_pairs: int, rows: int, target: float) -> str:
    def run(filler: str) -> float:
        settings = [f"seq_len={seq_len}", f"num_kv_pairs={num_kv_pairs}", f"filler={filler}"]
        task = build("mqar_single", settings, seed=0)
        return best_of(lambda: task.sample("train", 0, range(rows)))

    name = f"{rows:,} of length {seq_len}, {num_kv_pairs} pairs"
    return line(name, target, run("safe"), run("random"), numpy_seconds(seq_len, num_kv_pairs, rows))


def mixture_line(task: Task) -> str:
    def epoch() -> None:
        for _ in BatchStream(task, "train", batch_size=256):
            pass

    segments = task.segments("train")
    plain = sum(numpy_seconds(s.seq_len, s.slice["num_kv_pairs"], s.num_examples) for s in segments)
    rows = sum(segment.num_examples for segment in segments)
    name = f"{rows:,}: the Based training mixture, in batches of 256"
    return line(name, MIXTURE_TARGET, None, best_of(epoch), plain)


def line(name: str, target: float, safe: float | None, random: float, plain: float) -> str:
    ours = "" if safe is None else f"{safe:.2f}"
    return f"| {name} | {target:.0f} | {ours} | {random:.2f} | {plain:.1f} | {plain / (safe or random):.0f} |"


def numpy_seconds(seq_len: int, num_kv_pairs: int, rows: int) -> float:
    """The reference's way (keys, values and gaps; its filler left out) for SAMPLE rows, scaled to `rows`."""
    start = time.process_time()
    reference_rows(seed=0, vocab_size=8192, seq_len=seq_len, num_kv_pairs=num_kv_pairs, num_examples=SAMPLE)
    return (time.process_time() - start) * rows / SAMPLE


def best_of(run: Callable[[], object], times: int = 3) -> float:
    """CPU seconds of the fastest of `times` runs."""
    seconds = []
    for _ in range(times):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return min(seconds)


def peak_mb() -> float:
    """The process's largest resident set so far (Linux counts it in KB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def versions() -> str:
    return f"Python {platform.python_version()}, torch {torch.__version__}, numpy {np.__version__}"


if __name__ == "__main__":
    main()
