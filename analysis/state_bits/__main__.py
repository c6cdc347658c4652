"""Draw and print what the answers to evaluation=state_bits show: pictures, tables and claims.

    python -m analysis.state_bits frontier results/              accuracy against bits, under the bound
    python -m analysis.state_bits enough results/                the fewest bits a scalar within .01 of fp32
    python -m analysis.state_bits claims results/ CLAIMS.csv     claims written before, tested seed by seed
    python -m analysis.state_bits predicted results/             accuracy and error beside theory's
    python -m analysis.state_bits explained results/             what rounding costs, by mixer, scale, ...
    python -m analysis.state_bits arithmetic                     roundings of one matrix without a model

`python -m analysis.pareto results/ --axis bits` does the same as frontier.  Exit code: 0; 1 when nothing can
be read; 3 when a point of the frontier lies above what is possible.
"""

import argparse
from functools import partial
from pathlib import Path

import pandas as pd

from zoo.common.table_text import add_forms, of_frame, print_table
from zoo.common.terminal import command, command_parser, say

from ..drawing.style import STYLES
from ..records import written
from ..statistics.paired import CLAIMED, tested
from . import arithmetic
from . import command as draw
from .answers import answers, scores
from .explained import explained
from .frontier import enough, predicted

TABLES = {"enough": enough, "predicted": predicted, "explained": explained}


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        if options.what == "arithmetic":
            return _printed(arithmetic.table(), options.form)
        if options.what == "frontier":
            return draw.frontier(options.results, options.out, options.style)
        table = answers(options.results)
        if options.what in TABLES:
            return _printed(TABLES[options.what](table), options.form)
        claimed = tested(written.read(options.claims, CLAIMED), partial(scores, table))
        return _printed(claimed.drop(columns=["ahead", "behind", "slice"]), options.form)
    except (ValueError, OSError) as error:
        return say(f"error: {error}", draw.NOTHING)


def _printed(table: pd.DataFrame, form: str) -> int:
    print_table(form, of_frame(table, digits=3))
    return draw.DRAWN


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("analysis.state_bits", __doc__)
    parts = parser.add_subparsers(dest="what", required=True)
    for what in ("frontier", *TABLES, "claims"):
        part = parts.add_parser(what)
        part.add_argument("results", type=Path, help="the folder that zoo.evaluate wrote to, or an archive")
        if what != "frontier":
            add_forms(part)
        if what == "claims":
            part.add_argument("claims", type=Path, help="the CSV with what was claimed")
        if what == "frontier":
            part.add_argument("--out", type=Path, help="where pictures go (default: RESULTS/figures)")
            part.add_argument("--style", choices=STYLES, default="screen")
    add_forms(parts.add_parser("arithmetic"))
    return parser


if __name__ == "__main__":
    command(main)
