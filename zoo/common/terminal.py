"""Share what commands need on a terminal: exit codes, a console, tables without walls, order of families."""

import errno
import os
import signal
import sys
import textwrap
import threading
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from copy import copy
from io import TextIOWrapper
from pathlib import Path
from typing import NoReturn

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table


def console() -> Console:
    """Return a console as wide as the terminal, or of 160 columns if there is no terminal."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=160)


def slim(title: str | None = None) -> Table:
    """Return a table in the commands' style, without columns yet."""
    made = Table(title=title, title_justify="left", caption_justify="left")
    made.box, made.padding, made.pad_edge = box.SIMPLE_HEAD, (0, 1, 0, 0), False
    return made


def fitting(table: Table, spare: Sequence[str]) -> Table:
    """Return the table; if words would break on the terminal, without columns of `spare`, from the first on.

    A caption then names the missing columns."""
    width, missing = console().width, []
    for name in spare:
        if _least(table) > width and any(each.header == name for each in table.columns):
            table = copy(table)
            table.columns = [each for each in table.columns if each.header != name]
            missing.append(name.replace("\n", " "))
    if missing:
        line = f"no room here for: {', '.join(missing)}"
        table.caption = f"{table.caption}\n{line}" if table.caption else line
    return table


def print_whole(screen: Console, *layouts: Table) -> None:
    """Print the first table that fits, else the last: the terminal breaks its lines, and nothing is cut."""
    fitting = next((table for table in layouts if fit(screen, [table])), None)
    if fitting is not None:
        screen.print(fitting)
        return
    last = layouts[-1]
    last.box = None  # the terminal would break rules too
    Console(highlight=False, width=_wanted(screen, last)).print(last)


def fit(screen: Console, tables: Sequence[Table]) -> bool:
    """Return whether all tables fit the width of the screen."""
    return max(_wanted(screen, table) for table in tables) <= screen.width


def _wanted(screen: Console, table: Table) -> int:
    """Return the width of the table without any broken line."""
    return Measurement.get(screen, screen.options.update(width=1000), table).maximum


def _least(table: Table) -> int:
    """Return the least width of the table in letters; a column that is not wrapped needs its longest line."""
    widths = []
    for column in table.columns:
        parts = str.splitlines if column.no_wrap else str.split
        texts = [str(column.header), *map(str, column.cells)]
        widths.append(max((len(part) for text in texts for part in parts(text)), default=0))
    return sum(widths) + 2 * len(widths)


OK, FAILED, USAGE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143


def command_parser(
    name: str, description: str | None, epilog: str | None = None, allow_abbrev: bool = True
) -> ArgumentParser:
    """Return a parser for `python -m NAME` whose help keeps the layout of these texts."""
    return ArgumentParser(
        prog=f"python -m {name}",
        description=description,
        epilog=epilog,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=allow_abbrev,
    )


def add_results(parser: ArgumentParser) -> None:
    """Add the argument RESULTS: one or more folders or archives that a command reads."""
    says = "folders that zoo.run wrote to, or that hold such, or archives"
    parser.add_argument("results", type=Path, nargs="+", metavar="RESULTS", help=says)


def counted(count: int, thing: str) -> str:
    """Return "1 cell" or "2 cells"."""
    return f"{count} {thing}{'s' * (count != 1)}"


def say(text: str, code: int) -> int:
    """Print a text to stderr and return the exit code."""
    print("\n".join(map(_broken_between_words, text.splitlines())), file=sys.stderr)
    return code


def _broken_between_words(line: str) -> str:
    """Break a very long line between words on a terminal; other lines stay whole, for copying."""
    if not sys.stderr.isatty():
        return line
    width = os.get_terminal_size(sys.stderr.fileno()).columns or 80
    if len(line) <= 3 * width:
        return line
    return textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)


def open_streams() -> None:
    """Open /dev/null in place of a closed stdin, stdout or stderr (`2>&-`).  Otherwise a file opened later
    would get its number, and a child process would write into this file."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path may have letters that its encoding lacks


def unwritable(error: OSError) -> int:
    """Report that a command's output has no room (`> /dev/full`); raise any other error again."""
    if error.errno not in (errno.ENOSPC, errno.EIO) or error.filename is not None:
        raise error
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # drops what is left in the buffer
    return say(f"what this command prints cannot be written: {error.strerror}", FAILED)


def command(main: Callable[[], int | None]) -> NoReturn:
    """Exit with the code of `main` (None: 0).  Ctrl-C and `| head` end it without a traceback."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # as zoo/__init__.py left it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.unraisablehook = _once_more
    open_streams()
    try:
        code = main()
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = say("interrupted", INTERRUPTED)
    except OSError as error:
        code = unwritable(error)
    sys.exit(code)


def _once_more(dropped: "sys.UnraisableHookArgs") -> None:
    """Send SIGINT again: Python drops a Ctrl-C in a weak reference's callback (every import runs one)."""
    if issubclass(dropped.exc_type, KeyboardInterrupt):
        threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(dropped)
