"""Make the rows of a picture: one per point and slice, at the point's chosen learning rate."""

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from .axes import AXES, BF16, FP32, PER_CELL
from .chance import with_chance
from .frontier import contends, frontier
from .seeds import summary
from .uncertainty import Floats, at_chosen, on_frontier, resampled_points

_OF_THE_POINT = [
    "mixer", "label", "family", "series", "knobs", "load", "task", "d_model", "n_layers", "parameters",
    "causal", "exact_decode", "state_seq_len", "state_resident", "state_paper", "state_touched",
]  # fmt: skip
ORDER = ["family", "mixer", "series", "d_model", "state_resident", "point"]  # of rows
# of a point, for pictures of what was asked after training
ABOUT = ["point", "mixer", "family", "series", "d_model", "knobs", "state_resident", "causal", "exact_decode"]
_FIRST = ["mixer", "series", "knobs", "d_model", "n_layers"]


def points(
    table: pd.DataFrame, chosen: pd.DataFrame, *, split: str, slices: list[str], axis: str = "resident"
) -> pd.DataFrame:
    """Return a row per point: its sizes, the chosen lr, and the scores of its seeds on the mean of `slices`.

    accuracy: mean over seeds of the unweighted mean over slices, a diverged seed counted as 0;
    accuracy_finished: the same over the seeds that finished; low, high, interval: see
    `analysis.statistics.seeds`; seeds, diverged: how many at the chosen lr; seed_accuracies: of each, in one
    word ("0.25 0.5"); run_ids: the cells behind the row, in the same order; coverage: the share of answers in
    view, 1 without a window; chance: the score of a guess (guess: which guess, if not one among the row's
    values);
    bytes_fp32, bytes_bf16: of the resident state; decode_tokens_per_second, operations, wall_seconds: the
    median over the seeds that finished, NaN where none did;
    on_frontier: non-dominated on (axis, accuracy) among the rows of this call; frontier_share: how often it
    is when the seeds are drawn again; frontier_low, frontier_high: the middle 95 % of the best accuracy in
    these draws at the cost of this point.  These are NaN for a point that does not contend, and for all where
    no point has two seeds.  table: of `identify`, one load; chosen: of `choose`; axis: a key of `AXES`.
    """
    at_lr = chosen.loc[:, ["point", "lr"]]
    scores = at_chosen(table, chosen, split, slices)
    rows = [{"point": point} | _summary(group) for point, group in scores.groupby("point")]
    about = table.drop_duplicates("point").set_index("point")[_OF_THE_POINT]
    result = pd.DataFrame(rows).merge(chosen, on="point").merge(about, on="point")
    result = result.merge(_measured(table, at_lr), on="point", how="left")
    result["bytes_fp32"] = result["state_resident"] * FP32
    result["bytes_bf16"] = result["state_resident"] * BF16
    result["split"], result["slice"] = split, slice_name(slices)
    result = with_chance(result, table, slices)
    result = result.sort_values(ORDER, ignore_index=True)
    costs = result.assign(cost=AXES[axis].cost(result))
    result["on_frontier"] = frontier(costs, "cost")
    result["frontier_share"] = on_frontier(costs, scores, "cost")
    result[["frontier_low", "frontier_high"]] = _band(costs, scores)
    return result.loc[:, [*_FIRST, *(c for c in result if c not in _FIRST and c != "point"), "point"]]


def uneven(points: pd.DataFrame) -> list[str]:
    """Return a line for each point that lacks seeds: "Mamba d_model=64 d_state=16 has 2 of 3 seeds"."""
    most = points["seeds"].max()
    few = points.loc[points["seeds"] < most].to_dict("records")
    return [f"{in_words(row)} has {row['seeds']} of {most} seeds" for row in few]


def versions(points: pd.DataFrame, records: list[dict[str, Any]]) -> list[str]:
    """Return a line for each point whose seeds were made by different source of a part that is not zoo's."""
    source = {record["run_id"]: record.get("source", {}).items() for record in records}
    lines = []
    for row in points.to_dict("records"):
        hashes = {each for run_id in row["run_ids"].split() for each in source.get(run_id, ())}
        counts = Counter(part for part, _ in hashes if not part.startswith("zoo."))
        lines += [f"{in_words(row)} has {n} versions of {part}" for part, n in counts.items() if n > 1]
    return lines


def in_words(point: dict, width: bool = True) -> str:
    """Return the name of a row of `points`: "Mamba d_model=64 d_state=16"; without `width`, less d_model."""
    words = point["series"], f"d_model={point['d_model']}" if width else "", point["knobs"]
    return " ".join(filter(None, words))


def slice_name(slices: list[str]) -> str:
    """Return "seq_len=64,num_kv_pairs=8" for one slice, or "mean of 4 slices" for several."""
    return slices[0] if len(slices) == 1 else f"mean of {len(slices)} slices"


def _band(costs: pd.DataFrame, scores: pd.DataFrame) -> Floats:
    """Return [P, 2]: at each point's cost, the 2.5 % and 97.5 % of the best accuracy over resampled seeds."""
    band = np.full((len(costs), 2), np.nan)
    allowed = np.flatnonzero(contends(costs) & costs["cost"].notna())
    allowed = allowed[np.argsort(costs["cost"].to_numpy()[allowed], kind="stable")]
    if (costs["seeds"].to_numpy()[allowed] > 1).any():
        best = np.maximum.accumulate(resampled_points(costs.iloc[allowed], scores), axis=1)
        known = costs["cost"].to_numpy()[allowed]
        last = np.searchsorted(known, known, side="right") - 1  # of the points with this cost
        band[allowed] = np.quantile(best[:, last], [0.025, 0.975], axis=0).T
    return band


def _measured(table: pd.DataFrame, at_lr: pd.DataFrame) -> pd.DataFrame:
    cells = table.loc[table["status"] == "ok"].drop_duplicates("run_id").merge(at_lr, on=["point", "lr"])
    return cells.groupby("point", as_index=False)[list(PER_CELL)].median()


def _summary(scores: pd.DataFrame) -> dict[str, object]:
    return summary(scores["accuracy"].to_numpy(float)) | {
        "run_ids": " ".join(scores["run_id"]),
        "diverged": sum(scores["diverged"]),
        "accuracy_finished": scores.loc[~scores["diverged"], "accuracy"].mean(),
        "coverage": scores["coverage"].mean(skipna=False),
    }
