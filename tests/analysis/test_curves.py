"""Learning curves: the mean over slices at each step, one line a cell that can be told from the others."""

import pandas as pd

from analysis.drawing import curves
from analysis.records import cells
from tests.analysis import fake


def metrics(run_ids: list[str]) -> pd.DataFrame:
    rows = [
        (run_id, step, split, slice_, metric, step / 10 + place / 100)
        for run_id in run_ids
        for step in (1, 2)
        for split in ("train", "valid")
        for metric in ("accuracy", "loss")
        for place, slice_ in enumerate(("seq_len=8", "seq_len=16"))
    ]
    return pd.DataFrame(rows, columns=["run_id", "step", "split", "slice", "metric", "value"])


def test_a_curve_is_the_mean_over_slices() -> None:
    curve = curves.learning_curves(metrics(["a"]))
    assert curve.round(6).to_dict("list") == {
        "run_id": ["a", "a"],
        "step": [1, 2],
        "accuracy": [0.105, 0.205],
    }


def test_one_line_a_cell_told_apart_by_marker_or_dash() -> None:
    runs = cells.identify(fake.table()).query("lr == 0.003 and seed == 1").drop_duplicates("point").head(9)
    ax = curves.picture(curves.learning_curves(metrics(runs["run_id"].tolist())), runs).axes[0]
    assert len(ax.lines) == 9
    assert len({(line.get_color(), line.get_marker(), str(line._dash_pattern)) for line in ax.lines}) == 9
    assert ax.get_xlabel() and "mean of its slices" in ax.get_ylabel()
