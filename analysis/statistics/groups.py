"""Compute the accuracy of each kind of answer in a group of the task: by distance, depth or name."""

import numpy as np
import pandas as pd

from .seeds import percentiles, resamples, written

COLUMNS = [
    "point", "slice", "value", "accuracy", "low", "high", "answers", "seeds", "diverged", "seed_accuracies",
]  # fmt: skip


def names(counted: pd.DataFrame) -> list[str]:
    """Return the names of the groups in `counted`, a table of `zoo.results.load_groups`."""
    return list(dict.fromkeys(counted["group"]))


def by_group(counted: pd.DataFrame, name: str, table: pd.DataFrame, chosen: pd.DataFrame) -> pd.DataFrame:
    """Return a row per point, test slice and value of the group, in a column of its `name`: accuracy, low,
    high (95 %, seeds drawn again; NaN with one seed), answers, seeds, diverged, seed_accuracies.

    accuracy is pooled: right answers over answers of all seeds at the chosen learning rate.  A diverged seed
    counts as wrong on as many answers as the others were asked on average.
    counted: of `zoo.results.load_groups`; a distance d stands for those above d / 2, up to d.
    """
    cells = table.drop_duplicates("run_id").merge(chosen[["point", "lr"]], on=["point", "lr"])
    of_split = counted.loc[(counted["split"] == "test") & (counted["group"] == name)]
    counted = of_split.merge(cells[["run_id", "point"]], on="run_id", validate="many_to_one")
    took_part = (cells["status"] == "diverged") | cells["run_id"].isin(counted["run_id"])
    size = cells.loc[took_part, "point"].value_counts().to_dict()
    rows = [
        row for point, of_point in counted.groupby("point") for row in _of_point(point, of_point, size[point])
    ]
    return pd.DataFrame(rows, columns=COLUMNS).rename(columns={"value": name})


def means(grouped: pd.DataFrame) -> pd.DataFrame:
    """Return a row per point, slice and group: micro, right answers over answers, and macro, the mean of the
    accuracies of the group's values.  Of the group `answer`, macro is the class mean that MAD calls accuracy.

    grouped: rows of `by_group` with their `group`, points of one load.
    """
    right = grouped["accuracy"] * grouped["answers"]
    of_group = grouped.assign(right=right).groupby(["point", "slice", "group"], sort=False)
    sums = of_group.agg(right=("right", "sum"), answers=("answers", "sum"), macro=("accuracy", "mean"))
    sums["micro"], sums["values"] = sums["right"] / sums["answers"], of_group.size()
    return sums.drop(columns="right").reset_index()


def _of_point(point: object, counted: pd.DataFrame, seeds: int) -> list[dict[str, object]]:
    wide = counted.pivot(index="run_id", columns=["slice", "value"], values=["answers", "right"])
    wide = wide.fillna(0).sort_index(axis=1)
    answers, right = wide["answers"].to_numpy(float), wide["right"].to_numpy(float)
    lost = seeds - len(wide)
    answers = np.vstack([answers, np.repeat(answers.mean(axis=0, keepdims=True), lost, axis=0)])
    right = np.vstack([right, np.zeros((lost, right.shape[1]))])
    drawn = resamples(seeds)
    drawn_answers = answers[drawn].sum(axis=1)
    shares = np.where(drawn_answers > 0, right[drawn].sum(axis=1) / np.maximum(drawn_answers, 1), np.nan)
    rows = []
    for i, (slice_, value) in enumerate(wide["answers"].columns):
        low, high = percentiles(shares[:, i]) if seeds > 1 else (np.nan, np.nan)
        rows.append(
            {"point": point, "slice": slice_, "value": value}
            | {"accuracy": right[:, i].sum() / answers[:, i].sum(), "low": low, "high": high}
            | {"answers": int(wide["answers"].iloc[:, i].sum()), "seeds": seeds, "diverged": lost}
            | {"seed_accuracies": written(right[:, i] / np.maximum(answers[:, i], 1))}
        )
    return rows
