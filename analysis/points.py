"""What a picture shows: one row a point and slice, at the point's chosen learning rate."""

import pandas as pd

from analysis.cells import seed_scores
from analysis.frontier import frontier
from analysis.seeds import interval

STATES = ("resident", "paper", "touched")
_OF_THE_POINT = [
    "mixer", "label", "family", "series", "knobs", "task", "d_model", "n_layers", "parameters", "causal",
    "exact_decode", "state_seq_len", "state_resident", "state_paper", "state_touched",
]  # fmt: skip
_FIRST = ["mixer", "series", "knobs", "d_model", "n_layers"]


def points(
    table: pd.DataFrame, chosen: pd.DataFrame, *, split: str, slices: list[str], state: str = "resident"
) -> pd.DataFrame:
    """One row a point: its sizes, the chosen lr, and what its seeds scored on the mean of `slices`.

    accuracy: mean over seeds of the unweighted mean over slices, a diverged seed counted as 0;
    accuracy_finished: the same over the seeds that finished; low, high, interval: see `analysis.seeds`;
    seeds, diverged: how many at the chosen lr; coverage: the share of answers in view, 1 without a window;
    on_frontier: non-dominated on (state, accuracy) among the rows of this call.
    table: of `identify`; chosen: of `choose`; state: "resident", "paper" or "touched" (scalars per sequence).
    """
    scores = seed_scores(table, split, slices).merge(chosen[["point", "lr"]], on=["point", "lr"])
    rows = [{"point": point} | _summary(group) for point, group in scores.groupby("point")]
    about = table.drop_duplicates("point").set_index("point")[_OF_THE_POINT]
    result = pd.DataFrame(rows).merge(chosen, on="point").merge(about, on="point")
    result["split"], result["slice"] = split, slice_name(slices)
    result = result.sort_values(
        ["family", "mixer", "series", "d_model", "state_resident", "point"], ignore_index=True
    )
    result["on_frontier"] = frontier(result, f"state_{state}")
    return result.loc[:, [*_FIRST, *(c for c in result if c not in _FIRST and c != "point"), "point"]]


def slice_name(slices: list[str]) -> str:
    """ "seq_len=64,num_kv_pairs=8", or "mean of 4 slices" for several."""
    return slices[0] if len(slices) == 1 else f"mean of {len(slices)} slices"


def slices_in_words(slices: list[str]) -> str:
    """The slices for a label: "seq_len, num_kv_pairs = 64, 8"; "mean of 2 slices: (..) = (64, 4), .."."""
    pairs = [[part.split("=") for part in name.split(",")] for name in slices]
    keys = ", ".join(key for key, _ in pairs[0])
    values = [", ".join(value for _, value in pair) for pair in pairs]
    if len(slices) == 1:
        return f"{keys} = {values[0]}"
    return f"mean of {len(slices)} slices: ({keys}) = " + ", ".join(f"({value})" for value in values)


def _summary(scores: pd.DataFrame) -> dict[str, object]:
    low, high, how = interval(scores["accuracy"].to_numpy(float))
    return {
        "accuracy": scores["accuracy"].mean(),
        "low": low,
        "high": high,
        "interval": how,
        "seeds": len(scores),
        "diverged": sum(scores["diverged"]),
        "accuracy_finished": scores.loc[~scores["diverged"], "accuracy"].mean(),
        "coverage": scores["coverage"].mean(skipna=False),
    }
