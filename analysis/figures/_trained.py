"""The trained cells that pictures of later questions are about, named so that no two points look alike."""

import pandas as pd

from analysis.figures.gallery import Study
from analysis.records import cells
from analysis.statistics import learning_rate

ABOUT = ["point", "mixer", "label", "family", "series", "d_model", "knobs", "stack", "state_resident"]


def trained(study: Study) -> pd.DataFrame:
    """One row a cell at its point's learning rate: run_id, seed and the columns ABOUT.

    stack: "(Mamba2, Attention)", the layers, where a series has points of several stacks; else "".
    """
    table = cells.identify(study.table)
    chosen = learning_rate.choose(table)
    own = table.drop_duplicates("run_id").merge(chosen[["point", "lr"]], on=["point", "lr"])
    return own.assign(stack=stacks(own, study.layers)).loc[:, ["run_id", "seed", *ABOUT]]


def stacks(own: pd.DataFrame, layers: dict[str, str]) -> pd.Series:
    """Return the stack of each cell in words; "" where all cells of its series have the same."""
    stack = pd.Series([f"({layers.get(run, '')})" for run in own["run_id"]], own.index)
    of_series = stack.groupby(own["series"]).agg(set).to_dict()
    several = [len(of_series[series]) > 1 for series in own["series"]]
    return stack.where(several, "")
