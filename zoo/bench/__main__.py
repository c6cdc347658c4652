"""Time a subject beside its alternatives: `python -m zoo.bench WHAT [words as for zoo.run]`."""

import os
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from hydra.errors import HydraException

from zoo.common import interrupts, terminal
from zoo.common.terminal import command_parser, console, slim
from zoo.config import command_line

HELP = """Times something beside its alternatives, in turn, in one run, and beside what the machine allows.

  python -m zoo.bench train -m mixer=attention,based optim=zoology    a training step and epoch
  python -m zoo.bench prefill mixer=based                             a layer over a whole sequence
  python -m zoo.bench decode mixer=based                              one token after many
  python -m zoo.bench ops --ops taylor_scan,attention                 the ops of zoo.kernels by themselves
  python -m zoo.bench data task=mqar_based                            making rows
  python -m zoo.bench population mixer=based                          cells one at a time and as one model

Writes WHAT.csv (a row a measurement) and WHAT.md into --out.  key=value words, -m and --config-dir are those
of zoo.run; --device and trainer.threads say where."""
SUBJECTS = ("train", "prefill", "decode", "ops", "data", "population")
TRAINERS = {"cpu": "cpu", "cuda": "gpu"}  # device -> the choice of conf/trainer


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, show and write; return 0, or 2 with a line for each mistake."""
    argv = sys.argv[1:] if argv is None else list(argv)
    options, rest = _parser().parse_known_args(argv)
    where = [f"trainer={TRAINERS[options.device]}"] if options.device else []
    args = command_line.parsed(command_line.readable([*where, *rest]))
    try:
        rows = _measure(options, args, argv)
    except (HydraException, yaml.YAMLError) as error:
        return terminal.say(
            command_line.mistakes(Namespace(**vars(args) | {"multirun": True}), error), terminal.USAGE
        )
    except ValueError as error:
        return terminal.say(f"error: {error}", terminal.USAGE)
    _show(rows)
    return terminal.OK


def _parser() -> ArgumentParser:
    parser = command_parser("zoo.bench", HELP, allow_abbrev=False)
    parser.add_argument("what", choices=SUBJECTS)
    parser.add_argument("--out", type=Path, metavar="DIR", help="where WHAT.csv and WHAT.md go")
    parser.add_argument("--device", choices=TRAINERS, help="as trainer=cpu and trainer=gpu")
    parser.add_argument("--rounds", type=int, default=3, help="repeats of each alternative (default: 3)")
    parser.add_argument("--forms", help="of train: step forms, as zoo,plain; the last is the alternative")
    parser.add_argument("--ops", help="of ops: which, with commas (default: all that it knows)")
    parser.add_argument("--seq-lens", help="of prefill and decode: tokens, with commas")
    return parser


def _measure(options: Namespace, args: Namespace, argv: Sequence[str]) -> list[Any]:
    """Measure, and write all rows so far after each new cell or op, so that a stopped run keeps them."""
    if options.rounds < 1:
        raise ValueError(f"--rounds (={options.rounds}) must be at least 1.")
    if options.out:
        _check_folder(options.out)
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # torch's profiler would announce each of its starts
    with interrupts.unheard(signal.SIGINT):  # Ctrl-C during the import of torch would print a traceback
        from zoo.bench.rows import write
        from zoo.bench.subjects import measure  # takes seconds, so a misspelt option is reported before
    composer = command_line.composer_of(args)
    batch, _ = command_line.spanned(composer, args)
    rows: list[Any] = []
    for some in measure(options.what, [composer.cell(words) for words in batch], options):
        rows += some
        if options.out:
            write(rows, options.out, argv)
    return rows


def _check_folder(out: Path) -> None:
    """Raise ValueError if the tables cannot be written to `out`."""
    nearest = next(path for path in (out, *out.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise ValueError(f"--out (={out}): {nearest} is a file; give a folder for the tables.")
    if not os.access(nearest, os.W_OK):
        raise ValueError(f"--out (={out}): nothing can be written into {nearest}; give another folder.")


def _show(rows: Sequence[Any]) -> None:
    from zoo.bench.rows import table

    heads, cells = table(rows)
    shown = slim(f"{rows[0].what}: {rows[0].unit} a second")
    for head in heads:
        shown.add_column(head, overflow="fold")
    for line in cells:
        shown.add_row(*line)
    console().print(shown)


if __name__ == "__main__":
    terminal.command(main)
