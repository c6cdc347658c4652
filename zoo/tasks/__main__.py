"""List the tasks, show their rows without training, and check the laws that each task obeys.

    python -m zoo.tasks                                  all tasks, a line each
    python -m zoo.tasks mqar --show 2 --split test       rows with marks; settings may follow: filler=random
    python -m zoo.tasks mqar --out rows.npz              a whole split as arrays
    python -m zoo.tasks mqar --laws                      the laws of zoo/tasks/laws.py; without a name: on all
    python -m zoo.tasks my_task --laws --config-dir my_conf     a task of your own (my_conf/task/my_task.yaml)

Marks: ?token->answer is a place that is asked; k is where the answer is looked up, v where it stands; all
other tokens bear no mark.  Text is shown as text, and each next byte is asked.  The line of a segment ends
on chance (what the best guess scores) and on the bits that a state must hold, if Task.least_bits has a bound.
Exit code: 1 where a law is broken or a setting is wrong.
"""

import argparse
import sys
from functools import partial
from pathlib import Path
from textwrap import shorten, wrap
from typing import Any

import numpy as np
from hydra.errors import HydraException
from jaxtyping import Int
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from torch import Tensor

from zoo.common.checks import located, unknown
from zoo.common.foreign import visible
from zoo.common.terminal import command, command_parser
from zoo.config.bounds import out_of_bounds
from zoo.config.changes import changed, setting, settings_of
from zoo.config.paths import yamls_of
from zoo.config.targets import make, section
from zoo.config.words import first_line
from zoo.tasks import laws, markdown
from zoo.tasks.base import IGNORED, SPLITS, Batch, Segment, Split, Task, sources
from zoo.tasks.corpora.base import BOS, EOS

MOST = 1000  # the largest --show
ENOUGH = 256  # examples of a segment for the laws; few, because a task may make a whole segment at once


def main(argv: list[str] | None = None) -> None:
    """Print what the options ask for.  Exits with one line where the task or a setting is unknown."""
    args = _parser().parse_intermixed_args(argv)
    try:
        if not 0 <= args.show <= MOST:
            raise ValueError(f"--show (={args.show}) must be at least 0 and at most {MOST}.")
        files = yamls_of("task", args.config_dir)
        if args.laws:
            sys.exit(_laws(files, [args.task] if args.task else list(files), args.settings))
        if args.markdown:
            built = {name: build(name, [], 0, files, most=ENOUGH) for name in files}
            return print(markdown.page(built, files))
        if args.out and not args.task:
            raise ValueError(f"--out (={args.out}) needs a task: python -m zoo.tasks NAME --out {args.out}.")
        if not args.task:
            return _list(files)
        task = build(args.task, args.settings, args.seed, files)
        if args.out:
            export(task, args.split, Path(args.out))
        _show_segments(task, args.split, args.show)
    except (HydraException, OmegaConfBaseException) as error:
        sys.exit(f"error: {visible(first_line(error))}")
    except (ValueError, OSError) as error:
        sys.exit(f"error: {visible(str(error))}")
    except Exception as error:  # of the code of a task
        sys.exit(f"error: {visible(located(error))}")


def _show_segments(task: Task, split: Split, rows: int) -> None:
    for i, segment in enumerate(task.segments(split)):
        head = f"{split} {i}: {segment.name}, {segment.num_examples} examples, {_facts(task, segment)}"
        print(visible(head))
        batch = task.sample(split, i, range(rows))
        for row in range(rows):
            print("\n".join(wrap(show(task, batch, row), 100, initial_indent="  ", subsequent_indent="    ")))


def _facts(task: Task, segment: Segment) -> str:
    """Return a guess's score and a state's least bits in words: "chance 0.5, at least 4.0 bits"."""
    bits = task.least_bits(segment)
    return f"chance {task.chance(segment):.2g}" + ("" if bits is None else f", at least {bits:,.1f} bits")


def build(
    name: str, settings: list[str], seed: int, files: dict[str, Path] | None = None, most: int | None = None
) -> Task:
    """Build the task of NAME.yaml with `settings` such as ["filler=random"].

    most: the largest number of examples that a segment keeps.
    ValueError or HydraException: the task or the setting does not exist, or a value is not allowed.
    """
    files = yamls_of("task") if files is None else files
    if name not in files:
        raise ValueError(unknown("task", name, files))
    words = [setting(f"task.{word.removeprefix('task.')}") for word in settings]
    config = changed("task", settings_of(files[name]), words)
    given: Any = OmegaConf.to_container(OmegaConf.create({"seed": seed, "task": config}), resolve=True)
    for line in out_of_bounds(given) or section("task", given["task"], Task):
        raise ValueError(line)
    return make(given["task"] if most is None else _cut(given["task"], most), Task)


def _cut(node: Any, most: int) -> Any:
    """Return the config with at most `most` in each number whose key ends on _examples."""
    if isinstance(node, list):
        return [_cut(item, most) for item in node]
    if not isinstance(node, dict):
        return node
    counted = {key: min(value, most) for key, value in node.items() if key.endswith("_examples")}
    return {key: _cut(value, most) for key, value in node.items()} | counted


def _list(files: dict[str, Path]) -> None:
    """Print each task with its first test segment and the first comment of its yaml."""
    for name, path in files.items():
        task = build(name, [], 0, files, most=ENOUGH)
        about = shorten(markdown.comment(path), 100, placeholder=" ...")
        segment = task.segments("test")[0]
        print(visible(f"{name}: {task.kind}; {segment.name}, {_facts(task, segment)}"))
        print(f"    {visible(about)}")


def broken(name: str, settings: list[str] | None = None, files: dict[str, Path] | None = None) -> list[str]:
    """Return one line for each law that the task breaks (zoo.tasks.laws)."""
    made = partial(build, name, settings or [], files=files, most=ENOUGH)
    return laws.broken(lambda seed: made(seed=seed))


def _laws(files: dict[str, Path], names: list[str], settings: list[str]) -> int:
    broken_laws = {name: broken(name, settings, files) for name in names}
    for name, lines in broken_laws.items():
        head = f"{name}: keeps {len(laws.LAWS) - len(lines)} of {len(laws.LAWS)} laws"
        print("\n".join(map(visible, [head, *lines])))
    return 1 if any(broken_laws.values()) else 0


def show(task: Task, batch: Batch, row: int) -> str:
    """Return one row as text with its marks; a place that is asked bears only the mark "?"."""
    inputs = batch.inputs[row].tolist()
    if task.kind == "text":
        # write bytes as letters, other bytes as Python escapes; <s> and </s> bound a document
        marks = {BOS: "<s>", EOS: "</s>"}
        return "".join(marks[token] if token in marks else ascii(chr(token))[1:-1] for token in inputs)
    half = task.vocab_size // 2
    words = [str(token) for token in inputs]
    if task.stacked:  # two tokens that share a place: "key:value"
        words = [f"{t % half}:{t // half - 1}" if t >= half else str(t) for t in inputs]
    places = sources(task, batch)
    read = [] if places is None else _answers(batch, places, row)
    read = [(place, answer) for place, answer in read if place >= 0 and answer not in task.spoken]
    marks = {place: f"k{words[place]}" for place, _ in read}
    if not task.stacked:
        stands = [(place, answer) for place, answer in read if answer in inputs[place:]]
        marks |= {inputs.index(answer, place): f"v{answer}" for place, answer in stands}
    for place, answer in _answers(batch, batch.positions, row):
        mark = marks.get(place, "")
        marks[place] = f"{mark},{answer}" if mark.startswith("?") else f"?{inputs[place]}->{answer}"
    words = [marks.get(place, word) for place, word in enumerate(words)]
    return " ".join(words)


def _answers(batch: Batch, places: Int[Tensor, "B A"], row: int) -> list[tuple[int, int]]:
    """Pair each answer of a row with its place; IGNORED answers are left out."""
    pairs = zip(places[row].tolist(), batch.answers[row].tolist(), strict=True)
    return [(place, answer) for place, answer in pairs if answer != IGNORED]


def export(task: Task, split: Split, out: Path) -> None:
    """Write all examples of a split to one compressed .npz.

    Its arrays: SEGMENT/inputs, SEGMENT/positions, SEGMENT/answers and SEGMENT/GROUP.  ValueError: no .npz.
    """
    if out.suffix != ".npz":
        raise ValueError(f"--out (={out}) is written as NumPy arrays: name a file NAME.npz.")
    arrays = {}
    for i, segment in enumerate(task.segments(split)):
        batch = task.sample(split, i, range(segment.num_examples))
        fields = dict(zip(Batch._fields, batch.tensors, strict=False)) | dict(batch.groups)
        arrays |= {f"{segment.name}/{name}": part.numpy() for name, part in fields.items()}
    out.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(out, **arrays)
    print(f"wrote {out}")


def _parser() -> argparse.ArgumentParser:
    summary, _, details = (__doc__ or "").partition("\n")
    parser = command_parser("zoo.tasks", summary, details)
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
