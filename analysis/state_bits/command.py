"""Draw accuracy against bits from the answers in a folder of records."""

import sys
from collections.abc import Sequence
from pathlib import Path

from zoo.common.terminal import say

from .. import output
from ..drawing import page
from ..drawing.style import STYLES
from ..records.readable import as_csv
from .answers import answers
from .frontier import points, violations
from .picture import picture

DRAWN, NOTHING, WRONG = 0, 1, 3  # exit codes


def frontier(results: Path, out: Path | None, style: str, where: str = "", slices: Sequence[str] = ()) -> int:
    """Write the picture and its CSV, print the points above what is possible, and return an exit code."""
    try:
        table = answers(results, where, slices)
        shown, home = points(table), output.folder(results, "figures", out)
        paths = page.save(picture(shown, STYLES[style]), home / "pareto_bits", STYLES[style])
        paths.append(output.write(home / "pareto_bits.csv", as_csv(shown).encode()))
    except (ValueError, OSError) as error:
        return say(f"error: {error}", NOTHING)
    for path in paths:
        print(f"wrote {path}")
    wrong = violations(table)
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    return WRONG if wrong else DRAWN
