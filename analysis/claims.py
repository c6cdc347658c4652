"""Test claims that were written down before the runs: one point is ahead of another, seed by seed.

    python -m analysis.claims results/mini_se_attn_selection sweeps/mini_se_attn_selection.claims.csv

The CSV has one row a claim.  Lines that start with # are comments.  Its columns:

    claim     a name, or a few words
    ahead     a condition as in --where that leaves one point, which is claimed to be ahead
    behind    the same for the other point
    slice     "seq_len=64,num_kv_pairs=8", or "mean" for the unweighted mean of all test slices

Equal seeds share data and order, so scores come in pairs.  p is from a two-sided permutation test, exact up
to 14 pairs, and from 16,384 random exchanges beyond; Holm's correction is over the claims of the file.  A
claim holds if the mean difference is positive and the corrected p is at most .05.

Exit code: 0; 1 when nothing can be read; 3 when some records cannot be.
"""

import math
from functools import partial
from pathlib import Path

import pandas as pd
from rich.markup import escape
from rich.table import Table

from zoo.common.table_text import add_forms, print_table
from zoo.common.terminal import command, command_parser, say, slim
from zoo.results.reading import left_out

from .records import cells, written
from .records.readable import filtered, readable
from .records.where import where
from .statistics import learning_rate
from .statistics.paired import CLAIMED, EXACT, HOLDS, least_p, tested
from .statistics.uncertainty import at_chosen

MEAN = "mean"


def check(table: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Return `claims` with the columns of `paired.tested`.

    table: of `zoo.results.load`.  ValueError, one line: a condition that leaves no point or several.
    """
    return tested(claims, partial(scores, table))


def scores(table: pd.DataFrame, condition: str, name: str) -> pd.Series:
    """Return test accuracy by seed of the one point that fulfils a condition, at its chosen learning rate."""
    rows = where(table, condition)
    points = len(set(rows["point"]))
    if points != 1:
        raise ValueError(f"{condition!r} leaves {points} of {len(set(table['point']))} points: name one.")
    known = cells.slices(rows, "test")
    if name != MEAN and name not in known:
        raise ValueError(f"No slice {name!r}: choose {MEAN!r} or one of {', '.join(known)}.")
    shown = at_chosen(rows, learning_rate.choose(rows), "test", known if name == MEAN else [name])
    return pd.Series(shown["accuracy"].to_numpy(), index=shown["seed"].to_numpy())


def render(checked: pd.DataFrame) -> Table:
    """Return the tested claims as a table for the terminal."""
    table = slim()
    for name in ("claim", "difference", "from", "to", "seeds", "p", "Holm", ""):
        table.add_column(name, overflow="fold", justify="left" if name in ("claim", "") else "right")
    for row in checked.to_dict("records"):
        numbers = [_number(row[name], "+.3f") for name in ("difference", "low", "high")]
        probable = [_number(row[name], ".3g") for name in ("p", "p_holm")]
        style = None if row["verdict"] == HOLDS else "bold red"
        table.add_row(
            escape(row["claim"]), *numbers, str(row["pairs"]), *probable, row["verdict"], style=style
        )
    return table


def _test(checked: pd.DataFrame) -> str:
    """Name the test, and how small its p can be with so few seeds."""
    pairs = max(checked["pairs"].tolist())
    how = "exact" if pairs <= EXACT else f"from {2**EXACT:,} random exchanges"
    return (
        f"p: two-sided permutation test over pairs of seeds, {how}; {pairs} pairs give no less than "
        f"{least_p(pairs):.2g}. Holm: over {len(checked)} claims."
    )


def _number(value: float, form: str) -> str:
    """Write a number, or "-" for NaN: one seed has no interval and no test."""
    return "-" if math.isnan(value) else f"{value:{form}}"


def main(arguments: list[str] | None = None) -> int:
    parser = command_parser("analysis.claims", __doc__)
    parser.add_argument("results", type=Path, help="the folder that zoo.run wrote to, or an archive of one")
    parser.add_argument("claims", type=Path, help="the CSV with what was claimed")
    parser.add_argument("--where", default="", help='keep some cells only, such as "d_model == 64"')
    add_forms(parser)
    options = parser.parse_intermixed_args(arguments)
    try:
        table, *unread, _ = readable(options.results)
        checked = check(filtered(table, options.where), written.read(options.claims, CLAIMED))
    except (ValueError, OSError) as error:
        return say(f"error: {error}", 1)
    print_table(options.form, render(checked))
    print(_test(checked))
    return left_out(*unread)


if __name__ == "__main__":
    command(main)
