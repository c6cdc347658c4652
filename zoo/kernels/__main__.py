"""Every op and what can compute it here: python -m zoo.kernels

One line an implementation: how `kernels=` asks for it, and whether it runs on this machine, or why not.
With --markdown: what each op computes and its forms, the table of docs/kernels.md, on any machine the same.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence

from zoo.kernels.choice import REFERENCE, TRITON, Op, ops
from zoo.terminal import console, slim


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m zoo.kernels", description=__doc__)
    parser.add_argument("--markdown", action="store_true", help="for docs/kernels.md")
    if parser.parse_args(argv).markdown:
        print("\n".join(markdown()))
        return
    table = slim("Kernels")
    for column in ("op", "implementation", "kernels=", "here"):
        table.add_column(column, no_wrap=column != "here", overflow="fold")
    for op in ops():
        for i, row in enumerate(rows(op)):
            table.add_row("" if i else op.name, *row)
    console().print(table)


def markdown() -> list[str]:
    """A line an op."""
    lines = ["| op | computes | in torch, beside the definition | others |", "|---|---|---|---|"]
    for op in ops():
        forms = ", ".join(name for name in op.forms if name != REFERENCE)
        lines.append(f"| {op.name} | {computes(op)} | {forms} | {', '.join(op.others)} |")
    return lines


def computes(op: Op) -> str:
    """The first sentence of its package."""
    said = sys.modules[f"zoo.kernels.{op.name}"].__doc__ or ""
    return " ".join(said.split("\n\n")[0].split()).removesuffix(".")


def rows(op: Op) -> Iterator[tuple[str, str, str]]:
    """Implementation, the word that asks for it, and yes, or why not."""
    for name in (*op.forms, *op.others):
        yield name, _word(op, name), _here(op, name)


def _word(op: Op, name: str) -> str:
    if name in op.others:
        return TRITON if name == TRITON else "package"
    return "auto" if name != REFERENCE else f"{REFERENCE}, auto" if len(op.forms) == 1 else REFERENCE


def _here(op: Op, name: str) -> str:
    reason = op.missing(name)
    if reason is not None:
        return f"no: {reason}"
    if name in op.forms:
        return "yes"
    card = op.module(name).PROVEN
    if card is None:
        return "yes, when asked for: its tests have not run on a card yet, so auto leaves it"
    return f"yes, and under auto: its tests have passed on {card}"


if __name__ == "__main__":
    main()
