"""Select the trained cells for pictures of evaluations, named so that no two points look alike."""

import pandas as pd

from ..records import cells
from ..statistics import learning_rate
from .gallery import Study

ABOUT = ["point", "mixer", "label", "family", "series", "d_model", "knobs", "stack", "state_resident"]


def trained(study: Study) -> pd.DataFrame:
    """Return one row for each cell at its point's chosen learning rate: run_id, seed and the columns ABOUT.

    stack: the layers, "(Mamba2, Attention)", if a series has points of several stacks; else "".
    """
    table = cells.identify(study.table)
    chosen = learning_rate.choose(table)
    trained_cells = table.drop_duplicates("run_id").merge(chosen[["point", "lr"]], on=["point", "lr"])
    return trained_cells.assign(stack=stacks(trained_cells, study.layers)).loc[:, ["run_id", "seed", *ABOUT]]


def stacks(trained_cells: pd.DataFrame, layers: dict[str, str]) -> pd.Series:
    """Return the stack of each cell in words; "" if all cells of its series have the same stack."""
    stack = pd.Series([f"({layers.get(run, '')})" for run in trained_cells["run_id"]], trained_cells.index)
    of_series = stack.groupby(trained_cells["series"]).agg(set).to_dict()
    several = [len(of_series[series]) > 1 for series in trained_cells["series"]]
    return stack.where(several, "")
