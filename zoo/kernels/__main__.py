"""List every op and what can compute it here: python -m zoo.kernels

Prints a line for each implementation: its choice of `kernels=`, and whether it runs here, or why not.

  --prove          prove every kernel on this machine's card at the sizes of the sweeps, and show the verdicts
  --out FILE       with --prove: write them to a file, to be committed or sent
  --verdicts FILE  read such a file, show it, and keep its verdicts as this user's: they count where card,
                   versions and source are the same
  --markdown       what each op computes and its forms, the table of docs/kernels.md, on any machine the same
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.markup import escape

from zoo.common.foreign import visible
from zoo.common.terminal import command, command_parser, console, slim
from zoo.kernels.choice import REFERENCE, TRITON, Op, ops
from zoo.kernels.common import verdicts
from zoo.kernels.common.available import no_device
from zoo.kernels.common.verdicts import Verdict


def main(argv: Sequence[str] | None = None) -> None:
    """List the kernels, prove them, or show a file of verdicts, as the options say."""
    parser = command_parser("zoo.kernels", __doc__)
    parser.usage = "python -m zoo.kernels [-h] [--prove [--out FILE] | --verdicts FILE | --markdown]"
    what = parser.add_mutually_exclusive_group()
    for word in ("--markdown", "--prove"):
        what.add_argument(word, action="store_true", help=argparse.SUPPRESS)
    what.add_argument("--verdicts", type=Path, metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, metavar="FILE", help=argparse.SUPPRESS)
    try:
        _do(parser.parse_args(argv))
    except (OSError, ValueError) as error:
        parser.error(str(error))


def _do(options: argparse.Namespace) -> None:
    if options.out and not options.prove:
        raise ValueError("--out FILE is for the verdicts of --prove: add --prove.")
    if options.markdown:
        print("\n".join(markdown()))
    elif options.prove:
        _prove(options.out)
    elif options.verdicts:
        _store(options.verdicts)
    else:
        _list()


def _store(file: Path) -> None:
    """Show the verdicts of a file and store them for this user, if all of them are on kernels that exist."""
    foreign = verdicts.read_list(file)
    kernels = {(op.name, name) for op in ops() for name in op.others}
    for one in foreign:
        if (one.key.op, one.key.kernel) not in kernels:
            name = visible(str(file))
            raise ValueError(f"--verdicts (={name}): there is no {one.key.kernel!r} of an op {one.key.op!r}.")
    _show(foreign)
    for one in foreign:
        verdicts.write(one)


def _list() -> None:
    table = slim("Kernels")
    for column in ("op", "implementation", "kernels=", "here"):
        table.add_column(column, no_wrap=column != "here", overflow="fold")
    known = verdicts.all_stored()
    for op in ops():
        for i, row in enumerate(rows(op, known)):
            table.add_row("" if i else op.name, *row)
    console().print(table)


def _prove(out: Path | None) -> None:
    """Prove each kernel that has no verdict for this card, versions and source yet; show all verdicts."""
    from zoo.kernels.cases import prove_all

    if reason := no_device():
        raise ValueError(f"--prove needs a card: {reason}.")
    if out is not None:
        verdicts.write_list(out, [])  # a file that cannot be written fails now, before minutes of work
    proved: list[Verdict] = []
    for verdict in prove_all():
        proved.append(verdict)
        if out is not None:
            verdicts.write_list(out, proved)
    _show(proved)


def _show(shown: Iterable[Verdict]) -> None:
    table = slim("Verdicts")
    for column in ("op", "kernel", "inputs", "verdict", "auto"):
        table.add_column(column, no_wrap=column in ("op", "kernel", "auto"), overflow="fold")
    for one in shown:
        passes = "" if one.key.trained else ", forward"
        row = one.key.op, one.key.kernel, one.key.inputs + passes, str(one), "yes" if one.taken else "no"
        table.add_row(*map(escape, row))
    console().print(table)


def markdown() -> list[str]:
    """Return the table of docs/kernels.md, a line an op."""
    lines = ["| op | computes | in torch or C, beside the definition | others |", "|---|---|---|---|"]
    for op in ops():
        forms = ", ".join(name for name in op.forms if name != REFERENCE)
        lines.append(f"| {op.name} | {computes(op)} | {forms} | {', '.join(op.others)} |")
    return lines


def computes(op: Op) -> str:
    """Return the first sentence of the docstring of the op's package."""
    text = sys.modules[f"zoo.kernels.{op.name}"].__doc__ or ""
    return " ".join(text.split("\n\n")[0].split()).removesuffix(".")


def rows(op: Op, known: Sequence[Verdict] = ()) -> Iterator[tuple[str, str, str]]:
    """Yield each implementation, its choice of `kernels=`, and "yes" or why not.  known: stored verdicts."""
    for name in (*op.forms, *op.others):
        yield name, _word(op, name), _here(op, name, known)


def _word(op: Op, name: str) -> str:
    if name in op.others:
        return TRITON if name == TRITON else "package"
    return "auto" if name != REFERENCE else f"{REFERENCE}, auto" if len(op.forms) == 1 else REFERENCE


def _here(op: Op, name: str, known: Sequence[Verdict]) -> str:
    reason = op.missing(name)
    if reason is not None:
        return f"no: {reason}"
    if name in op.forms:
        return "yes"
    verdicts_on_it = [one for one in known if (one.key.op, one.key.kernel) == (op.name, name)]
    if not verdicts_on_it:
        return "yes; under auto once it has proved right and faster on this card, at its first use"
    faster = sum(one.taken for one in verdicts_on_it)
    return f"yes; under auto for {faster} of {len(verdicts_on_it)} kinds of inputs that were tried"


if __name__ == "__main__":
    command(main)
