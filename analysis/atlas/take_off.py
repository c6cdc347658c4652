"""Say which cells have not taken off, whose accuracy tells how long they were trained, not what they hold."""

from collections.abc import Iterator

import pandas as pd

from ..figures.gallery import Study
from ..figures.rounded import MIDDLE
from ..records import cells
from ..statistics.takeoff import takeoffs


def never_off(study: Study) -> set[str]:
    """Return the run_ids of the cells that have not taken off by their end."""
    ends = takeoffs(study.metrics, cells.named(study.table))
    return set(ends.loc[~ends["off"], "run_id"])


def take_off(points: pd.DataFrame, table: pd.DataFrame, stayed: set[str]) -> Iterator[str]:
    """Yield how many points of about 1,600 scalars have taken off with all their cells, and which others."""
    middle = points.loc[points["state_resident"].between(*MIDDLE)]
    rows = middle.sort_values("accuracy", ascending=False).to_dict("records")
    of_point = table.drop_duplicates("run_id").groupby("point")["run_id"].agg(set)
    off = {row["point"]: len(of_point[row["point"]] - stayed) for row in rows}
    rest = [row for row in rows if off[row["point"]] < len(of_point[row["point"]])]
    if not rest:
        return
    first = sum(row["accuracy"] > rest[0]["accuracy"] for row in rows)
    names = [f"{row['series']} ({off[row['point']]} of {len(of_point[row['point']])})" for row in rest]
    yield f"""
**Take-off.** A cell has taken off when it has come half way from chance to 1 on a validation slice. Of
{len(rows)} points of about 1,600 scalars, {len(rows) - len(rest)} have taken off with all their cells,
at both learning rates. They have the first {first} places, so there the order does not depend on who has
taken off. The rest have cells that did not, and some of them hold too little for the easiest rows:
{", ".join(names)}.
"""
