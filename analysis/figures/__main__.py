"""Draw pictures of a folder of records: the published figures beside ours, and other views.

    python -m analysis.figures                                which pictures there are, and for which sweep
    python -m analysis.figures based_fig2 results/            one of them
    python -m analysis.figures all results/mini_based_fig2    all that belong to the sweep of that name
    python -m analysis.figures --committed docs/results --out docs/figures

RESULTS is a folder of records or an archive that `python -m zoo archive` made.  Each picture is NAME.png,
NAME.pdf, NAME.csv with the numbers behind it, and NAME.txt with sentences on what it shows.  --committed
makes every picture of every archive in a folder, as OUT/SWEEP/NAME, without the PDFs; but none
of a sweep that still runs.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import pandas as pd
from rich.markup import escape

from zoo.common.table_text import TERMINAL, add_forms, print_table
from zoo.common.terminal import command, command_parser, console, say, slim
from zoo.results.reading import INCOMPLETE

from .. import output
from ..drawing.style import SCREEN, STYLES, Style
from . import gallery

ALL = "all"


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    style = STYLES[options.style]
    try:
        if options.committed:
            return _committed(options.committed, options.out or Path("docs/figures"), style)
        if options.list or not options.name:
            _list()
            return 0
        return _show(options, style)
    except (ValueError, OSError) as error:
        return say(f"error: {error}", 1)


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("analysis.figures", __doc__)
    parser.add_argument("name", nargs="?", default="", help="a picture, or all of the sweep")
    parser.add_argument("results", nargs="?", type=Path, help="a folder of records, or an archive of one")
    parser.add_argument("--out", type=Path, help="where pictures go (default: RESULTS/figures)")
    parser.add_argument("--style", choices=tuple(STYLES), default=SCREEN.name, help="for which page")
    parser.add_argument("--committed", type=Path, metavar="FOLDER", help="every picture of its archives")
    parser.add_argument("--where", default="", help='keep some cells only, such as "d_model == 64"')
    add_forms(parser)
    parser.add_argument("--list", action="store_true", help="say which pictures there are")
    return parser


def _list() -> None:
    table = slim()
    table.add_column("picture", no_wrap=True)
    table.add_column("sweeps", ratio=1)
    table.add_column("shows", ratio=2)
    for name in gallery.names():
        sweeps = [sweep for sweep, shown in gallery.PICTURES.items() if name in shown]
        table.add_row(name, ", ".join(sweeps) or "any", gallery.about(name))
    console().print(table)


def _show(options: argparse.Namespace, style: Style) -> int:
    if options.name != ALL:
        gallery.find(options.name)
    if options.results is None:
        raise ValueError(f"Give the results that {options.name} shows: a folder of records or an archive.")
    study = gallery.Study(options.results, options.where)
    names = gallery.pictures_of(study.name) if options.name == ALL else (options.name,)
    out = output.folder(options.results, "figures", options.out)
    return _make(names, study, out, style, form=options.form)


def _committed(folder: Path, out: Path, style: Style) -> int:
    archives = sorted(folder.glob("*.zip"))
    if not archives:
        raise ValueError(f"{folder} holds no archive (*.zip) of results: python -m zoo archive makes them.")
    studies = [gallery.Study(path) for path in archives]
    wanted = [(gallery.pictures_of(study.name), study) for study in studies]
    made = [_make(names, study, out / study.name, style, print_too=False) for names, study in wanted]
    return max(made, default=0)


def _make(
    names: tuple[str, ...],
    study: gallery.Study,
    out: Path,
    style: Style,
    *,
    print_too: bool = True,
    form: str = TERMINAL,
) -> int:
    """Make all pictures; return exit code 1 if one of them failed, which does not stop the others."""
    code = 0
    for line in (before := list(study.unread)):
        print(f"warning: {line}", file=sys.stderr)
    for name in names:
        try:
            picture = gallery.draw(name, study, style)
            paths = gallery.write(picture, out / name, style, print_too=print_too)
        except (ValueError, OSError) as error:
            print(f"error: {name} of {study.name}: {error}", file=sys.stderr)
            code = 1
        else:
            _print(picture, paths, form)
    for line in study.unread[len(before) :]:
        print(f"warning: {line}", file=sys.stderr)
    return code or (INCOMPLETE if study.unread else 0)


def _print(picture: gallery.Picture, paths: list[Path], form: str) -> None:
    for name, table in picture.tables.items():
        _table(name.replace("_", " "), table, form)
    screen = console()
    for line in picture.sentences:
        screen.print(line, markup=False, soft_wrap=not screen.is_terminal)
    for path in paths:
        screen.print(f"wrote {path}", soft_wrap=True, markup=False)


def _table(title: str, rows: pd.DataFrame, form: str) -> None:
    shown = slim(title)
    columns = [str(name) for name in rows.columns if name not in ("source", "note")]
    for column in columns:
        shown.add_column(column, no_wrap=True)
    for row in rows.to_dict("records"):
        shown.add_row(*(_field(row[name]) for name in columns))
    print_table(form, shown)


def _field(value: Any) -> str:
    if pd.isna(value):
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else escape(str(value))


if __name__ == "__main__":
    command(main)
