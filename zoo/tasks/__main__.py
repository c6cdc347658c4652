"""Look at a task's rows without training:  python -m zoo.tasks mqar --show 1 --split test

Marks: k key, v value, ?key->answer a scored position; everything else is filler.  `--out FILE.npz` writes a
whole split as arrays.
"""

import argparse
import sys
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np
from omegaconf import OmegaConf

from zoo.checks import unknown
from zoo.config.bounds import out_of_bounds
from zoo.config.paths import CONF
from zoo.instantiate import make
from zoo.launch.preflight import section
from zoo.tasks.base import IGNORED, SPLITS, Batch, Split, Task, sources

MOST = 1000  # rows that anybody looks at


def main(argv: list[str] | None = None) -> None:
    """Entry point.  Exits with one line where the task or a setting is unknown."""
    args = _parser().parse_args(argv)
    try:
        if not 0 <= args.show <= MOST:
            raise ValueError(f"--show (={args.show}) must be at least 0 and at most {MOST}.")
        task = build(args.task, args.settings, args.seed)
        if args.out:
            export(task, args.split, Path(args.out))
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    for i, segment in enumerate(task.segments(args.split)):
        chance = f"chance {task.chance(segment):.2g}"
        print(f"{args.split} {i}: {segment.name}, {segment.num_examples} examples, {chance}")
        batch = task.sample(args.split, i, range(args.show))
        for row in range(args.show):
            print("\n".join(wrap(show(task, batch, row), 100, initial_indent="  ", subsequent_indent="    ")))


def build(name: str, settings: list[str], seed: int) -> Task:
    """The task of conf/task/NAME.yaml with `settings` such as ["filler=random"]."""
    files = {path.stem: path for path in (CONF / "task").glob("*.yaml")}
    if name not in files:
        raise ValueError(unknown("task", name, files))
    config = OmegaConf.load(files[name])
    changes = OmegaConf.from_dotlist(settings)
    for key in set(changes) - set(config):
        raise ValueError(unknown("setting", str(key), map(str, config)))
    node = OmegaConf.create({"seed": seed, "task": OmegaConf.merge(config, changes)})
    given: Any = OmegaConf.to_container(node, resolve=True)
    for line in out_of_bounds(given) or section("task", given["task"]):
        raise ValueError(line)
    return make(given["task"], Task)


def show(task: Task, batch: Batch, row: int) -> str:
    """One row, its tokens marked."""
    inputs, places = batch.inputs[row].tolist(), sources(task, batch)
    answers = {answer for answer in batch.answers[row].tolist() if answer != IGNORED}
    asked = dict(zip(batch.positions[row].tolist(), batch.answers[row].tolist(), strict=True))
    keys = set() if places is None else {inputs[place] for place in places[row].tolist()}
    words = []
    for t, token in enumerate(inputs):
        if t in asked:
            words.append(f"?{token}->{asked[t]}")
        elif token in keys:
            words.append(f"k{token}")
        else:
            words.append(f"v{token}" if token in answers else str(token))
    return " ".join(words)


def export(task: Task, split: Split, out: Path) -> None:
    """All examples of a split as SEGMENT/inputs, positions, answers and its groups in one compressed .npz."""
    arrays = {}
    for i, segment in enumerate(task.segments(split)):
        batch = task.sample(split, i, range(segment.num_examples))
        fields = dict(zip(Batch._fields, batch.tensors, strict=False)) | dict(batch.groups)
        arrays |= {f"{segment.name}/{name}": part.numpy() for name, part in fields.items()}
    np.savez_compressed(out, **arrays)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m zoo.tasks", description="Look at a task's rows.")
    parser.add_argument("task", help="a yaml of conf/task, e.g. mqar")
    parser.add_argument("settings", nargs="*", help="settings of the task, e.g. filler=random")
    parser.add_argument("--show", type=int, default=1, help="rows of each segment (default 1)")
    parser.add_argument("--split", choices=SPLITS, default="train")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", help="also write the whole split to this .npz")
    return parser


if __name__ == "__main__":
    main()
