"""Show what a command would run: `python -m zoo.plan -m sweep=NAME`; nothing is trained or written."""

import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Collection, Sequence

import yaml
from hydra.errors import HydraException

from zoo.common import terminal
from zoo.common.terminal import command_parser, console
from zoo.config import command_line
from zoo.config.cell import VARIED, Cell, without_starts
from zoo.config.words import parse
from zoo.launch.sweep import checked_cells

HELP = """What a command would run; nothing is trained or written.

  python -m zoo.plan -m sweep=based_fig2                  cells, sizes, cost and jobs of a sweep
  python -m zoo.plan -m mixer=based,mamba d_model=64,128  of any command for zoo.run
  python -m zoo.plan 'mixer=glob(*)'                      without -m: what each mixer keeps
  python -m zoo.plan 'mixer=glob(*)' d_model=128 --seq-lens 64,1024 --markdown

Exit code 2, with a line for each mistake, when a cell cannot be built.
key=value words, -m and --config-dir are those of zoo.run (python -m zoo.run --help)."""


def main(argv: Sequence[str] | None = None) -> int:
    """Print the plan (-m) or the state table; return 0, or 2 with a line for each mistake."""
    argv = sys.argv[1:] if argv is None else argv
    options, rest = _parser().parse_known_args(argv)
    args = command_line.parsed(command_line.readable(rest))
    try:
        if args.multirun:
            for name, value in vars(options).items():
                if value:
                    raise ValueError(f"--{name.replace('_', '-')} belongs to the state table: leave out -m.")
            _print_plan(args)
        else:
            _print_state_table(args, options, argv)
    except (HydraException, yaml.YAMLError) as error:
        return terminal.say(
            command_line.mistakes(Namespace(**vars(args) | {"multirun": True}), error), terminal.USAGE
        )
    except ValueError as error:
        return terminal.say(str(error), terminal.USAGE)
    return terminal.OK


def _parser() -> ArgumentParser:
    parser = command_parser("zoo.plan", HELP, allow_abbrev=False)
    table = parser.add_argument_group("the state table (without -m)")
    table.add_argument("--seq-lens", help="tokens after which the state is counted (default: 64,1024,65536)")
    form = table.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="as a table for a document")
    form.add_argument("--csv", action="store_true", help="one row for each mixer and length")
    return parser


def _lengths(text: str | None) -> tuple[int, ...]:
    words = (text or "64,1024,65536").split(",")
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise ValueError(f"--seq-lens (={text}) must be positive integers, such as 64,1024.")
    return tuple(map(int, words))


def _print_plan(args: Namespace) -> None:
    from zoo.launch.forecast import forecast  # torch: seconds, which a misspelt option should not cost

    composer = command_line.composer_of(args)
    batch, hydras = command_line.spanned(composer, args)
    cells = checked_cells(composer, batch, here=False)
    for part in forecast(cells, settings(cells), hydras.launcher):
        console().print(part, soft_wrap=isinstance(part, str), markup=False)  # it may hold a record's words


def _print_state_table(args: Namespace, options: Namespace, argv: Sequence[str]) -> None:
    from zoo.launch import state_table

    seq_lens = _lengths(options.seq_lens)
    composer = command_line.composer_of(args)
    batch, _ = command_line.spanned(composer, args)
    points = list({cell.point: cell for cell in checked_cells(composer, batch, here=False)}.values())
    names = settings(points)
    entries = [state_table.entry(cell, names[cell.run_id], seq_lens) for cell in points]
    if options.csv:
        print(state_table.as_csv(entries), end="")
    elif options.markdown:
        print(state_table.as_markdown(entries, f"python -m zoo.plan {shlex.join(argv)}"), end="")
    else:
        console().print(*state_table.as_tables(entries))


def settings(cells: Collection[Cell]) -> dict[str, str]:
    """Return run id -> the words that set its point apart, without seed, lr, mixer and the mixer's label.

    Words that all cells share are left out, and `mixer.` before a setting.  Cells that others start from are
    not asked whether they share a word.
    """
    of_no_point = (*VARIED, "mixer", "mixer.about.label")
    lines = {
        cell.run_id: [line for line in cell.overrides if parse(line).key_or_group not in of_no_point]
        for cell in cells
    }
    word_sets = [set(lines[cell.run_id]) for cell in without_starts(cells)]
    common = set.intersection(*word_sets) if word_sets else set()
    return {
        run_id: " ".join(word.removeprefix("mixer.") for word in words if word not in common)
        for run_id, words in lines.items()
    }


if __name__ == "__main__":
    terminal.command(main)
