"""How fast the rows of each task are made, on one core: a line a task in benchmarks/tables/tasks.md.

    OMP_NUM_THREADS=1 python -m benchmarks.tasks --out benchmarks/tables/tasks.md

Processor time, not the clock on the wall, so that other work on the machine counts little.
"""

import argparse
import os
import time
from pathlib import Path

import torch

from zoo.config.compose import composer
from zoo.instantiate import build_task
from zoo.tasks.base import Segment, Task

LENGTH = 128  # tokens
ROWS = 100_000
BLOCK = 2048  # rows that training makes at once, about
ENOUGH = 0.4  # seconds

HEAD = """# Rows a second

Each task's rows on one core ({cores} in the machine, one thread), made in blocks of {block:,} from the
training segment whose length is nearest {length} tokens: rows a second of processor time, and from it the
seconds of {rows:,} rows of {length} tokens, in proportion to tokens. `python -m benchmarks.tasks` makes it.

| task | tokens a row | rows a second | s for {rows:,} rows of {length} tokens |
|---|--:|--:|--:|"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tasks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--out", type=Path, help="where the table goes; else it is printed")
    parser.add_argument("--seconds", type=float, default=ENOUGH, help=f"of each task (default: {ENOUGH:g})")
    parser.add_argument("tasks", nargs="*", help="which; all by default")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    compose = composer()
    names = options.tasks or compose.options("task")
    lines = [
        _line(name, build_task(compose.cell([f"task={name}"]).config), options.seconds) for name in names
    ]
    head = HEAD.format(cores=os.cpu_count(), block=BLOCK, length=LENGTH, rows=ROWS)
    page = "\n".join([head, *lines]) + "\n"
    if options.out:
        options.out.write_text(page)
    else:
        print(page, end="")
    return 0


def _line(name: str, task: Task, enough: float) -> str:
    segments = task.segments("train")
    index = min(range(len(segments)), key=lambda i: _distance(segments[i]))
    length, speed = segments[index].seq_len, rows_a_second(task, index, enough)
    return f"| `{name}` | {length:,} | {speed:,.0f} | {ROWS * LENGTH / length / speed:.2g} |"


def _distance(segment: Segment) -> float:
    return abs(segment.seq_len - LENGTH)


def rows_a_second(task: Task, segment: int, enough: float) -> float:
    """Of processor time, once a first small block has warmed up what is made once."""
    task.sample("train", segment, range(8))
    began, made = time.process_time(), 0
    while (spent := time.process_time() - began) < enough:
        task.sample("train", segment, range(made, made + BLOCK))
        made += BLOCK
    return made / spent


if __name__ == "__main__":
    raise SystemExit(main())
