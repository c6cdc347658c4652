"""Say which cells have not taken off, whose accuracy tells how long they were trained, not what they hold."""

from collections.abc import Iterator

import pandas as pd

from ..figures.gallery import Study
from ..figures.rounded import MIDDLE
from ..records import cells
from ..statistics.takeoff import soonest, takeoffs
from .markdown import head, row

ENOUGH = 0.9  # validation accuracy at which sweeps/atlas_takeoff.yaml ends a cell
OF_SURVIVAL = """
## How soon each memory begins

Training steps until a cell has taken off: the mean of up to {seeds} seeds, for each learning rate
([shares of seeds](figures/atlas_takeoff/takeoff.png)). A cell that never takes off counts with its last step;
in brackets is how many have, where that is not all. **Then**: at the rate that is soonest, how many cells
have reached {enough} of the validation slice ({easy}), at which they end, after how many
steps in the mean, and what these have of the hardest test slice ({hard}).
"""


def ends(study: Study) -> pd.DataFrame:
    """Return run_id, what the cell is, step, and off: whether it has taken off by its end."""
    table = cells.named(study.table)
    about = table.drop_duplicates("run_id")[["run_id", "point", "mixer", "series", "lr", "steps"]]
    return takeoffs(study.metrics, table).merge(about, on="run_id")


def survival(study: Study) -> Iterator[str]:
    """Yield the lines on how soon each mixer takes off, and what cells that know as much then hold."""
    [easy], hard = cells.slices(study.table, "valid"), cells.slices(study.table, "test")[-1]
    scores = study.table.set_index(["split", "slice", "run_id"])["accuracy"].to_dict()
    ended = ends(study)
    for column, of in (("easy", ("valid", easy)), ("hard", ("test", hard))):
        ended[column] = [scores[*of, run] for run in ended["run_id"]]
    count, rates = ended.groupby(["point", "lr"]).size().max(), sorted(ended["lr"].unique())
    in_words = [cells.slices_in_words([name]) for name in (easy, hard)]
    yield OF_SURVIVAL.format(seeds=count, enough=ENOUGH, easy=in_words[0], hard=in_words[1])
    yield from head(["mixer", *(f"lr {rate:g}" for rate in rates), "then"])
    groups = dict(iter(soonest(ended).groupby("series")))
    for name in sorted(groups, key=lambda name: groups[name]["step"].mean()):
        at = [ended.loc[(ended["series"] == name) & (ended["lr"] == rate)] for rate in rates]
        yield row([str(name), *map(_mean_steps, at), _then(groups[name])])


def _mean_steps(group: pd.DataFrame) -> str:
    """Return in words after how many steps these cells take off, and how many do, where it is not all."""
    off = sum(group["off"].tolist())
    return f"{group['step'].mean():,.0f}{'' if off == len(group) else f' ({off})'}" if len(group) else ""


def _then(group: pd.DataFrame) -> str:
    """Return in words what the cells of one rate that have learned the easy slice have of the hard one."""
    known = group.loc[group["easy"] >= ENOUGH]
    steps, hard = known["steps"].mean(), known["hard"].mean()
    return f"{len(known)} after {steps:,.0f}: {hard:.2f}" if len(known) else "0"


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
    names = [f"{r['series']} with {r['state_resident']:,.0f} ({r['off']} of {r['cells']})" for r in rest]
    yield f"""
**Take-off.** A cell has taken off when it has come half way from chance to 1 on a validation slice. Of
{len(rows)} points of {MIDDLE[0]:,} to {MIDDLE[1]:,} scalars, {len(rows) - len(rest)} have taken off with
all their cells, at both learning rates. They have the first {first} places, so there the order does not
depend on who has taken off. The rest (with their scalars) have cells that did not, and some of them hold too
little for the easiest rows: {", ".join(names)}.
"""
