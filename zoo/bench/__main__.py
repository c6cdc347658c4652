"""What is timed against what: `python -m zoo.bench WHAT [words as for zoo.run]`."""

import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from hydra.errors import HydraException

from zoo import terminal
from zoo.config import command_line
from zoo.terminal import console, slim

HELP = """Times something beside its alternatives, in turn, in one run, and beside what the machine allows.

  python -m zoo.bench train -m mixer=attention,based optim=zoology    a training step and epoch
  python -m zoo.bench prefill mixer=based                             a layer over a whole sequence
  python -m zoo.bench decode mixer=based                              one token after many
  python -m zoo.bench ops --ops taylor_scan,attention                 the ops of zoo.kernels by themselves
  python -m zoo.bench data task=mqar_based                            making rows
  python -m zoo.bench head task.vocab_size=8192                       the loss over the vocabulary
  python -m zoo.bench population mixer=based                          cells one at a time and as one model
  python -m zoo.bench startup                                         until the first step

Writes WHAT.csv (a row a measurement) and WHAT.md into --out.  key=value words, -m and --config-dir are those
of zoo.run; trainer.threads and trainer.accelerator say where."""
SUBJECTS = ("train", "prefill", "decode", "ops", "data", "head", "population", "startup")


def main(argv: Sequence[str] | None = None) -> int:
    """0; 2 with a line for each mistake where the words name no cell."""
    argv = sys.argv[1:] if argv is None else list(argv)
    own, rest = _parser().parse_known_args(argv)
    args = command_line.parsed(command_line.readable(rest))
    try:
        rows = _measure(own, args)
    except (HydraException, yaml.YAMLError) as error:
        return terminal.say(
            command_line.mistakes(Namespace(**vars(args) | {"multirun": True}), error), terminal.USAGE
        )
    except ValueError as error:
        return terminal.say(f"error: {error}", terminal.USAGE)
    _show(rows)
    if own.out:
        from zoo.bench.rows import write

        write(rows, own.out, argv)
    return terminal.OK


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="python -m zoo.bench",
        description=HELP,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("what", choices=SUBJECTS)
    parser.add_argument("--out", type=Path, metavar="DIR", help="where WHAT.csv and WHAT.md go")
    parser.add_argument("--rounds", type=int, default=3, help="repeats of each alternative (default: 3)")
    parser.add_argument(
        "--forms", help="of train: which forms of the step, with commas; the last is the alternative"
    )
    parser.add_argument("--ops", help="of ops: which, with commas (default: all that it knows)")
    parser.add_argument("--seq-lens", help="of prefill and decode: tokens, with commas")
    return parser


def _measure(own: Namespace, args: Namespace) -> list[Any]:
    from zoo.bench.subjects import measure  # torch: seconds, which a misspelt option should not cost

    if own.rounds < 1:
        raise ValueError(f"--rounds (={own.rounds}) must be at least 1.")
    composer = command_line.composer_of(args)
    batch, _ = command_line.spanned(composer, args)
    return measure(own.what, [composer.cell(words) for words in batch], own)


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
