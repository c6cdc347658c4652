"""Write one HTML file with the frontier and all records behind it; it needs no network.

    python -m analysis.report RESULTS ... [--out FILE]
    python -m analysis.report RESULTS ... --live

With --live the page is served while a sweep still runs, and no file is written.
"""

import sys
from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from textwrap import shorten

from zoo.common.foreign import visible
from zoo.common.terminal import command, command_parser, counted, say

from ..output import write
from .live import serve
from .page import report

MOST = 20  # problems that are printed; the page has all


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_intermixed_args(arguments)
    if options.live:
        try:
            serve(options.results, options.port)
        except OSError as error:
            return say(f"error: cannot serve on port {options.port} ({error.strerror}).", 1)
        return 0
    path = options.out or _default_path(options.results)
    try:
        _check_plain(path)
        text, sources = report(options.results, f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC")
        write(path, text.encode())
    except (ValueError, OSError) as error:
        return say(f"error: {error}", 1)
    for problem in sources.problems[:MOST]:
        print(f"left out: {problem.where}: {problem.why}", file=sys.stderr)
    if (more := len(sources.problems) - MOST) > 0:
        print(f"left out: {more} more, which the page lists", file=sys.stderr)
    homes = shorten(visible(", ".join(sources.names)), 200, placeholder=" ...")
    records = f"{counted(len(sources.records), 'record')} of {homes}"
    print(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB, {records})")
    return 0


def _parser() -> ArgumentParser:
    parser = command_parser("analysis.report", __doc__)
    says = "folders that zoo.run wrote to, archives of them, or a folder of either: all on one page"
    parser.add_argument("results", type=Path, nargs="+", help=says)
    says = "(default: RESULTS/report.html; beside an archive; report.html here for several RESULTS)"
    parser.add_argument("--out", type=Path, metavar="FILE", help=says)
    says = "write no file: serve the page to this machine's browsers, as results come in, until Ctrl-C"
    parser.add_argument("--live", action="store_true", help=says)
    parser.add_argument("--port", type=int, default=0, metavar="N", help="of --live (default: any free one)")
    return parser


def _default_path(results: list[Path]) -> Path:
    if len(results) > 1:
        return Path("report.html")
    return results[0] / "report.html" if results[0].is_dir() else results[0].with_suffix(".html")


def _check_plain(path: Path) -> None:
    """Refuse a link, since a link in somebody's results must not decide which file is written."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise ValueError(f"{path} is a link or no plain file: remove it, or give another with --out FILE.")


if __name__ == "__main__":
    command(main)
