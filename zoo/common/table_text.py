"""Print a command's table: on the terminal, or as Markdown or LaTeX for copying."""

import argparse

import pandas as pd
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from zoo.common.terminal import console, print_whole, slim

TERMINAL, MARKDOWN, LATEX = "terminal", "markdown", "latex"


def add_forms(parser: argparse.ArgumentParser) -> None:
    """Add the options --markdown and --latex; the parsed `form` is the form that was chosen."""
    forms = parser.add_mutually_exclusive_group()
    for form, help in ((MARKDOWN, "print tables as Markdown"), (LATEX, "print tables for LaTeX (booktabs)")):
        forms.add_argument(
            f"--{form}", dest="form", action="store_const", const=form, default=TERMINAL, help=help
        )


def print_table(form: str, table: Table, narrower: Table | None = None) -> None:
    """Print a table in a form; on a terminal print `narrower` instead, if it is given."""
    if form == TERMINAL:
        print_whole(console(), *([table] if narrower is None else [narrower]))
    else:
        print(as_text(table, form))


def of_frame(frame: pd.DataFrame, digits: int = 4) -> Table:
    """Return the table of a frame, with numbers of `digits` digits, aligned to the right."""
    made = slim()
    for name in frame:
        made.add_column(Text(str(name)), justify="left" if frame[name].dtype.kind in "OUT" else "right")
    for row in frame.itertuples(index=False):
        made.add_row(*(Text(f"{x:.{digits}g}" if isinstance(x, float) else str(x)) for x in row))
    return made


def as_text(table: Table, form: str) -> str:
    """Return a table with all its columns as Markdown or LaTeX; columns keep their alignment."""
    columns = [[_plain(column.header), *map(_plain, column.cells)] for column in table.columns]
    head, *rows = zip(*columns, strict=True)
    right = [column.justify == "right" for column in table.columns]
    title = _plain(table.title or "")
    if form == LATEX:
        frame = pd.DataFrame(rows, columns=list(head))
        layout = "".join("r" if each else "l" for each in right)
        return (f"% {title}\n" if title else "") + frame.to_latex(
            index=False, escape=True, column_format=layout
        )
    lines = [head, ["--:" if each else "---" for each in right], *rows]
    text = "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)
    return f"**{title}**\n\n{text}" if title else text


def _plain(cell: RenderableType) -> str:
    text = cell if isinstance(cell, Text) else Text.from_markup(str(cell))
    return " ".join(text.plain.split())
