"""The tasks there are, their rows without training, and the laws that each obeys.

    python -m zoo.tasks                                  all tasks, a line each
    python -m zoo.tasks mqar --show 2 --split test       rows with marks; settings may follow: filler=random
    python -m zoo.tasks mqar --out rows.npz              a whole split as arrays
    python -m zoo.tasks mqar --laws                      the laws of zoo/tasks/laws.py; without a name: on all
    python -m zoo.tasks my_task --laws --config-dir my_conf     a task of your own (my_conf/task/my_task.yaml)

Marks: k key, v value, ?key->answer a scored position; everything else is filler.  Text is shown as text: each
next byte of it is asked.  Exit code: 1 where a law is broken or a setting is wrong.
"""

import argparse
import sys
from functools import partial
from pathlib import Path
from textwrap import shorten, wrap
from typing import Any

import numpy as np
from omegaconf import OmegaConf

from zoo.checks import unknown
from zoo.config.bounds import out_of_bounds
from zoo.config.paths import CONF
from zoo.instantiate import make
from zoo.launch.preflight import section
from zoo.tasks import laws, markdown
from zoo.tasks.base import IGNORED, SPLITS, Batch, Split, Task, sources
from zoo.tasks.corpora.base import BOS, EOS
from zoo.terminal import command

MOST = 1000  # rows that anybody looks at
ENOUGH = 256  # examples of a segment, for laws: a task may make its segments whole


def main(argv: list[str] | None = None) -> None:
    """Entry point.  Exits with one line where the task or a setting is unknown."""
    args = _parser().parse_intermixed_args(argv)
    try:
        if not 0 <= args.show <= MOST:
            raise ValueError(f"--show (={args.show}) must be at least 0 and at most {MOST}.")
        files = _files(args.config_dir)
        if args.laws:
            sys.exit(_laws(files, [args.task] if args.task else list(files), args.settings))
        if args.markdown:
            return print(
                markdown.page({name: build(name, [], 0, files, most=ENOUGH) for name in files}, files)
            )
        if args.out and not args.task:
            raise ValueError(f"--out (={args.out}) needs a task: python -m zoo.tasks NAME --out {args.out}.")
        if not args.task:
            return _list(files)
        task = build(args.task, args.settings, args.seed, files)
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


def _files(folder: str | None = None) -> dict[str, Path]:
    """The yaml of each task by name; of a folder of one's own, where one is given, before ours."""
    homes = [CONF] if folder is None else [CONF, Path(folder)]
    if not homes[-1].is_dir():
        raise ValueError(f"--config-dir (={folder}) must be a folder with yamls of your own.")
    return {path.stem: path for home in homes for path in sorted((home / "task").glob("*.yaml"))}


def build(
    name: str, settings: list[str], seed: int, files: dict[str, Path] | None = None, most: int | None = None
) -> Task:
    """The task of NAME.yaml with `settings` such as ["filler=random"]; most: examples of a segment."""
    files = _files() if files is None else files
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
    return make(given["task"] if most is None else _cut(given["task"], most), Task)


def _cut(node: Any, most: int) -> Any:
    """The config with fewer examples: of what is called num_examples, or ends on _examples."""
    if isinstance(node, list):
        return [_cut(item, most) for item in node]
    if not isinstance(node, dict):
        return node
    counted = {key: min(value, most) for key, value in node.items() if key.endswith("_examples")}
    return {key: _cut(value, most) for key, value in node.items()} | counted


def _list(files: dict[str, Path]) -> None:
    """Each with its first test segment, and how its yaml begins."""
    for name, path in files.items():
        task = build(name, [], 0, files, most=ENOUGH)
        segment = task.segments("test")[0]
        said = shorten(markdown.comment(path), 100, placeholder=" ...")
        print(f"{name}: {task.kind}; {segment.name}, chance {task.chance(segment):.2g}\n    {said}")


def broken(name: str, settings: list[str] | None = None, files: dict[str, Path] | None = None) -> list[str]:
    """A line on each law that the task breaks (zoo.tasks.laws)."""
    made = partial(build, name, settings or [], files=files, most=ENOUGH)
    return laws.broken(lambda seed: made(seed=seed))


def _laws(files: dict[str, Path], names: list[str], settings: list[str]) -> int:
    found = {name: broken(name, settings, files) for name in names}
    for name, lines in found.items():
        print("\n".join([f"{name}: keeps {len(laws.LAWS) - len(lines)} of {len(laws.LAWS)} laws", *lines]))
    return 1 if any(found.values()) else 0


def show(task: Task, batch: Batch, row: int) -> str:
    """One row, its tokens marked."""
    if task.kind == "text":
        return _text(batch.inputs[row].tolist())
    inputs, places = batch.inputs[row].tolist(), sources(task, batch)
    answers = {answer for answer in batch.answers[row].tolist() if answer != IGNORED}
    asked = dict(zip(batch.positions[row].tolist(), batch.answers[row].tolist(), strict=True))
    keys = set() if places is None else {inputs[place] for place in places[row].tolist()}
    words = []
    for t, token in enumerate(inputs):
        if t in asked:
            words.append(f"?{token}->{asked[t]}")
        elif token in keys:
            words.append(f"k{_both(token, task.vocab_size // 2) if task.stacked else token}")
        else:
            words.append(f"v{token}" if token in answers else str(token))
    return " ".join(words)


def _text(tokens: list[int]) -> str:
    """Bytes as letters, those that are none as in Python; <s> and </s>: where a document begins and ends."""
    marks = {BOS: "<s>", EOS: "</s>"}
    return "".join(marks[token] if token in marks else ascii(chr(token))[1:-1] for token in tokens)


def _both(token: int, half: int) -> str:
    """Two tokens side by side, as "key:value"."""
    return f"{token % half}:{token // half - 1}"


def export(task: Task, split: Split, out: Path) -> None:
    """All examples of a split as SEGMENT/inputs, positions, answers and its groups in one compressed .npz."""
    arrays = {}
    for i, segment in enumerate(task.segments(split)):
        batch = task.sample(split, i, range(segment.num_examples))
        fields = dict(zip(Batch._fields, batch.tensors, strict=False)) | dict(batch.groups)
        arrays |= {f"{segment.name}/{name}": part.numpy() for name, part in fields.items()}
    np.savez_compressed(out, **arrays)


def _parser() -> argparse.ArgumentParser:
    summary, _, details = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="python -m zoo.tasks", description=summary, epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("task", nargs="?", help="a yaml of conf/task, e.g. mqar")
    parser.add_argument("settings", nargs="*", help="settings of the task, e.g. filler=random")
    parser.add_argument("--show", type=int, default=1, help="rows of each segment (default 1)")
    parser.add_argument("--split", choices=SPLITS, default="train")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", help="also write the whole split to this .npz")
    parser.add_argument("--laws", action="store_true", help="run the laws of tasks on it, or on all")
    parser.add_argument("--markdown", action="store_true", help="docs/tasks.md")
    parser.add_argument("--config-dir", help="a folder with task/NAME.yaml of your own; its code is run")
    return parser


if __name__ == "__main__":
    command(main)
