"""Compute every number that the documents quote again, from its records.

    python -m analysis.quotes              docs/quotes.yaml against docs/results, from the top of a checkout
    python -m analysis.quotes --open       also list the numbers of the pages that no entry covers

The file says, page by page, which numbers stand where and how each is computed:

    README.md:
    - of: mini_based_fig2                  a table: see below; for all entries until the next `of`
    - text: Based has {} ({} to {})        a part of the page; {} stands for a number, {?} for one that
                                           another entry computes
      where: mixer == 'based'              the rows of the table that the text is about, as in --where
      is: (accuracy, low, high)[mixer.feature_dim == 2]

`is` gives a value for each {} in turn, by expressions with ; between them.  COLUMN[CONDITION] is the column
of the rows for which the condition holds, (A, B)[CONDITION] several columns of each row, and [0] the first of
several values; seed_accuracies has a value for each seed.  mean, min, max, sum, count, abs, sorted and
round(.., digits) take several values; +, -, * and / take single ones.  `it >= ..` and `it <= ..` mean that
the page gives a bound.  No other form is accepted, and nothing is executed.

Tables:  STUDY          the points of docs/results/STUDY.zip, mean of their test slices
         STUDY slices   the same, one row a test slice
         STUDY cells    the same, one row a cell, at every learning rate
         STUDY rows     one row a cell and test slice, as `zoo.results.load`
         STUDY GROUP    the points by a group of the task's answers (binding, distance, depth) and slice
         STUDY NAME     the answers to evaluation=NAME
         STUDY claims   sweeps/STUDY.claims.csv, tested (STUDY.LATER claims: a second file); `claims`: those
                        of all studies named mini_adapt* and mini_se_attn*
         STUDY equal    every two series compared at equal state; `STUDY equal_paper` by the published count
         STUDY mean_ranks  each series' mean rank over the tasks of a complete block
         STUDY task_pairs  rho, low and high of the mixers' ranks on two tasks, a and b, of such a block
         FOLDER/NAME    docs/figures/FOLDER/NAME.csv, which CI holds to the archives; recall_gap
         rank_correlation  rho, low and high of analysis.recall_gap
         published/NAME analysis/published/NAME.csv, read from the figures of others
`cells` beside `of` keeps some cells only.  `ahead` and `behind` (and `slice`) in place of `where` compare two
points seed by seed, as a claim does.  `no_record: WHY` in place of `is` marks numbers whose records were not
kept.

A number is right if it is the computed one, rounded to the digits that the page shows.
Exit code: 0; 1 if a number is wrong or cannot be computed.
"""

import sys
from pathlib import Path

import yaml

from zoo.common.terminal import command, command_parser, say

from .pages import Report, check, open_numbers, read


def main(arguments: list[str] | None = None) -> int:
    """Check every page of the file, and print a line on each with its count of computed numbers."""
    parser = command_parser("analysis.quotes", __doc__)
    parser.add_argument("file", nargs="?", type=Path, default=Path("docs/quotes.yaml"), help="the entries")
    parser.add_argument("--root", type=Path, default=Path(), help="the top of the checkout")
    parser.add_argument("--open", action="store_true", help="list the numbers that no entry covers")
    options = parser.parse_intermixed_args(arguments)
    try:
        pages = read(options.root / options.file)
    except (ValueError, OSError, yaml.YAMLError) as error:
        return say(f"error: {error}", 1)
    reports = {page: check(options.root, page, entries) for page, entries in pages.items()}
    for page, report in reports.items():
        _print(page, report, open_numbers(options.root, page, report), options.open)
    return int(any(report.wrong for report in reports.values()))


def _print(page: str, report: Report, rest: list[tuple[int, str]], listed: bool) -> None:
    for line in report.wrong:
        print(f"error: {line}", file=sys.stderr)
    fractions = sum("." in number for _, number in rest)
    print(
        f"{page}: {len(report.computed)} numbers computed again, {len(report.unrecorded)} without a record, "
        f"{len(rest)} not covered ({fractions} of them with a decimal point)"
    )
    for line, number in rest if listed else []:
        print(f"  {page}:{line}: {number}")


if __name__ == "__main__":
    command(main)
