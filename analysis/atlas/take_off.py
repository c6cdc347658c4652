"""Say which cells have not taken off, whose accuracy tells how long they were trained, not what they hold."""

from collections.abc import Iterator

import pandas as pd

from ..figures.gallery import Study
from ..figures.rounded import MIDDLE
from ..records import cells
from ..statistics.takeoff import takeoffs


def ends(study: Study) -> pd.DataFrame:
    """Return run_id, point, and off: whether the cell has taken off by its end."""
    table = cells.named(study.table)
    about = table.drop_duplicates("run_id")[["run_id", "point"]]
    return takeoffs(study.metrics, table).merge(about, on="run_id")


def take_off(points: pd.DataFrame, ended: pd.DataFrame) -> Iterator[str]:
    """Yield how many points of about 1,600 scalars have taken off with all their cells, and which others.

    ended: of `ends`.
    """
    counts = ended.groupby("point", as_index=False).agg(off=("off", "sum"), cells=("off", "size"))
    middle = points.loc[points["state_resident"].between(*MIDDLE)].merge(counts, on="point")
    rows = middle.sort_values("accuracy", ascending=False).to_dict("records")
    rest = [row for row in rows if row["off"] < row["cells"]]
    if not rest:
        return
    first = sum(row["accuracy"] > rest[0]["accuracy"] for row in rows)
    names = [f"{row['series']} ({row['off']} of {row['cells']})" for row in rest]
    yield f"""
**Take-off.** A cell has taken off when it has come half way from chance to 1 on a validation slice. Of
{len(rows)} points of about 1,600 scalars, {len(rows) - len(rest)} have taken off with all their cells,
at both learning rates. They have the first {first} places, so there the order does not depend on who has
taken off. The rest have cells that did not, and some of them hold too little for the easiest rows:
{", ".join(names)}.
"""
