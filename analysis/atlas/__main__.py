"""Write the page of the atlas: what each mixer recalls at each state size, and other facts about it.

    python -m analysis.atlas docs/results > docs/atlas.md

The folder holds archives: atlas_frontier.zip, whose cells make the page, and optionally atlas_block.zip,
atlas_takeoff.zip, atlas_interference.zip and atlas_load_distance.zip.  A mixer that is in none of the
archives is not on the page.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from zoo.common.terminal import command, command_parser, say
from zoo.results.reading import left_out

from ..figures.gallery import Study
from ..figures.rounded import MIDDLE, RECURRENT
from ..pareto import pareto
from ..records.cells import slices, slices_in_words
from ..statistics import ranks
from . import markdown
from .block import block
from .cards import cards, used_scalars
from .take_off import ends, survival, take_off

# atlas_PART.zip, the first of which must be there
PARTS = ("frontier", "block", "takeoff", "interference", "load_distance")
SIZES = (500, 1600, 5000)  # approximate state sizes in scalars
NEAR = 1.35  # a point counts to a size if the larger of the two is at most this many times the smaller
HEAD = """# The atlas: what each memory can do

This page compares {count} mixers of the zoo at equal state size. All are trained alike on one task: recall of
unrelated key-value pairs (MQAR) at toy scale, on rows of 2 to 16 pairs, tested on up to 64. Every mixer
follows the same short convolution of three taps. There are {points} points and {cells} cells;
`sweeps/atlas_frontier.yaml` gives the settings and what was expected.

**Which memory for which need?** [Findings, in short](findings.md#in-short) answers by need. The order on this
page is for one need, and for a task with 79 keys. A memory with many key dimensions can keep 79 keys as
[a table](findings.md#a-table-of-few-keys-atlas_keys). With 1,023 keys the order
[stays at about 1,600 scalars, less so at about 5,000](findings.md#the-atlas-with-1023-keys-atlas_many_keys).

![Accuracy of every mixer, one line each](figures/atlas_frontier/mixers.png)

[The same points against state size](figures/atlas_frontier/frontier.png), with the frontier and the upper
bound for any model; [one panel a mixer](figures/atlas_frontier/frontier_each.png).

How to read the tables:

- **Accuracy** is the {slices}, over {seeds} seeds, at the better of two learning rates. Where seeds differ by
  more than 0.3, each seed is given and no mean.
- **The number in brackets** is the state size: the scalars that the model keeps of 256 tokens. Rows are in
  the order of accuracy at about 1,600, and of the best size where there is none.
- **A dash** means no better than a guess among the row's values; such a point is not on the frontier.
- **A star** means that no smaller state is better.
- **A dagger** (†) means that not all of these cells have taken off (below the first table).
- **Used** (in the tables by mixer) is how many scalars of the state matter
  ([effective_state](evaluation.md#ask-it-something-new)).
- **8, 4 and 3 bits** are the accuracy with the state rounded after every token
  ([findings](findings.md#the-same-states-in-few-bits)).

`python -m analysis.atlas docs/results` makes this page from the archives in [results](results).
"""


def main(arguments: list[str] | None = None) -> int:
    parser = command_parser("analysis.atlas", __doc__)
    parser.add_argument("archives", type=Path, help="the folder of archives, docs/results")
    options = parser.parse_args(arguments)
    first, *others = (options.archives / f"atlas_{name}.zip" for name in PARTS)
    if not first.exists():
        return say(f"error: there is no {first}: name the folder of archives, docs/results.", 1)
    studies = [Study(first), *(Study(home) if home.exists() else None for home in others)]
    try:
        print("\n".join(page(*studies)))
    except (ValueError, OSError) as error:
        return say(f"error: {error}", 1)
    return left_out([line for study in studies if study for line in study.unread])


def page(
    study: Study, of_block: Study | None, of_take_off: Study | None, *of_cards: Study | None
) -> Iterator[str]:
    """Yield the lines of the page, from the archives of PARTS; None: it is not there."""
    table, shown = study.table, pareto(study.table)
    order, points = slices(table, "test"), shown.points
    yield HEAD.format(
        count=points["mixer"].nunique(), points=len(points), cells=table["run_id"].nunique(),
        slices=slices_in_words(order), seeds=points["seeds"].max(),
    )  # fmt: skip
    yield "## Every memory at three sizes\n"
    yield markdown.row(["mixer", "family", *(f"about {size:,} scalars" for size in SIZES), "other sizes"])
    yield markdown.row(["---"] * (3 + len(SIZES)))
    ended = ends(study)
    stayed = set(ended.loc[~ended["off"], "run_id"])
    for line in sorted(_at_sizes(points, stayed), key=lambda line: line["best"], reverse=True):
        yield markdown.row(line["fields"])
    yield from take_off(points, ended)
    yield from block(of_block) if of_block else ()
    yield from survival(of_take_off) if of_take_off else ()
    used = used_scalars(study)
    yield from _use_and_recall(points, used)
    yield "\n## Each memory\n"
    yield from cards(study, shown, used, (of_block, of_take_off, *of_cards))


def _at_sizes(points: pd.DataFrame, stayed: set[str]) -> Iterator[dict[str, Any]]:
    for _, group in points.groupby("mixer"):
        rows = group.sort_values("state_resident").to_dict("records")
        fields = [rows[0]["label"], rows[0]["family"]]
        words = [(_size(row), _with_state(row, stayed)) for row in rows]
        fields += [", ".join(text for at, text in words if at == size) for size in (*SIZES, None)]
        middle = [row for row in rows if _size(row) == SIZES[1]] or rows
        yield {"best": max(row["accuracy"] for row in middle), "fields": fields}


def _size(row: Mapping[str, Any]) -> int | None:
    """Return the size of SIZES that a point counts to; None: it counts to none."""
    state = row["state_resident"]
    return next((size for size in SIZES if size / NEAR <= state <= size * NEAR), None)


def _with_state(row: Mapping[str, Any], stayed: set[str]) -> str:
    dagger = "" if stayed.isdisjoint(row["run_ids"].split()) else "†"
    return f"{markdown.starred(row)}{dagger} ({row['state_resident']:,.0f})"


def _use_and_recall(points: pd.DataFrame, used: Mapping[str, float]) -> Iterator[str]:
    """Yield whether recurrent mixers of one state size recall more if they use more of their state."""
    answered = points["point"].isin(list(used)) & points["state_resident"].between(*MIDDLE)
    rows = points.loc[answered & points["family"].isin(RECURRENT)]
    if len(rows) < ranks.FEWEST:
        return
    of = [used[point] for point in rows["point"]]
    x, y = ([np.array([value]) for value in column] for column in (of, rows["accuracy"]))
    rho, low, high = ranks.rank_correlation(x, y)
    yield f"""
**Use and recall.** {len(rows)} recurrent mixers of about 1,600 scalars use {min(of):,.0f} to {max(of):,.0f}
scalars of their state ([effective_state](evaluation.md#ask-it-something-new)). Spearman's correlation with
accuracy is {rho:.2f} (95 % bootstrap over mixers: {low:.2f} to {high:.2f}).
"""


if __name__ == "__main__":
    command(main)
