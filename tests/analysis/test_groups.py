"""Accuracy by kind of answer, pooled over seeds, from counts small enough to add up."""

import numpy as np
import pandas as pd
import pytest

from analysis.statistics.groups import by_group, means

CHOSEN = pd.DataFrame({"point": ["p", "q"], "lr": [0.1, 0.1]})
SLICE = "seq_len=64,num_kv_pairs=8"


def cells(seeds: int, point: str = "p", lr: float = 0.1) -> pd.DataFrame:
    return pd.DataFrame(
        [{"run_id": f"{point}{lr}{seed}", "point": point, "lr": lr, "seed": seed} for seed in range(seeds)]
    )


def counts(run_id: str, *bins: tuple[int | str, int, int], split: str = "test") -> list[dict]:
    return [
        {"run_id": run_id, "split": split, "slice": SLICE, "group": "distance", "value": d}
        | {"answers": n, "right": right}
        for d, n, right in bins
    ]


def test_counts_are_pooled_over_the_seeds_of_the_chosen_rate() -> None:
    table = pd.concat([cells(2), cells(1, lr=0.2)])
    counted = [*counts("p0.10", (8, 10, 9), (16, 4, 0)), *counts("p0.11", (8, 30, 15))]
    counted += counts("p0.20", (8, 100, 100)) + counts("p0.10", (8, 50, 50), split="valid")
    found = by_group(pd.DataFrame(counted), "distance", table, CHOSEN).set_index("distance")
    assert found["accuracy"].to_dict() == pytest.approx({8: 24 / 40, 16: 0.0})
    assert found["answers"].to_dict() == {8: 40, 16: 4}
    assert found.loc[8, ["low", "high"]].tolist() == pytest.approx([0.5, 0.9])
    assert set(found["seeds"]) == {2} and set(found["diverged"]) == {0}


def test_a_diverged_seed_is_wrong_on_as_many_answers_as_the_others() -> None:
    counted = [*counts("p0.10", (8, 10, 10)), *counts("p0.11", (8, 20, 20))]
    found = by_group(pd.DataFrame(counted), "distance", cells(3), CHOSEN).iloc[0]
    assert found["accuracy"] == pytest.approx(30 / 45) and found["diverged"] == 1 and found["answers"] == 30


def test_one_seed_leaves_no_interval_and_no_counts_no_rows() -> None:
    found = by_group(pd.DataFrame(counts("p0.10", (8, 10, 3))), "distance", cells(1), CHOSEN)
    assert found["accuracy"].item() == 0.3 and np.isnan(found["low"].item())
    assert by_group(pd.DataFrame(counts("other", (8, 1, 1))), "distance", cells(1), CHOSEN).empty


def test_words_are_told_apart_beside_distances() -> None:
    words = [row | {"group": "kind"} for row in counts("p0.10", ("new", 8, 4), ("kept", 2, 2))]
    counted = pd.DataFrame([*counts("p0.10", (8, 10, 5)), *words])
    found = by_group(counted, "kind", cells(1), CHOSEN)
    assert found.set_index("kind")["accuracy"].to_dict() == {"new": 0.5, "kept": 1.0}
    assert by_group(counted, "distance", cells(1), CHOSEN)["distance"].tolist() == [8]


def test_macro_counts_every_kind_alike_and_micro_every_answer() -> None:
    counted = pd.DataFrame(counts("p0.10", (3, 8, 4), (7, 2, 2)))
    found = by_group(counted, "distance", cells(1), CHOSEN).rename(columns={"distance": "value"})
    row = means(found.assign(group="answer")).iloc[0]
    assert row["macro"] == pytest.approx((0.5 + 1.0) / 2) and row["micro"] == pytest.approx(6 / 10)
    assert (row["point"], row["slice"], row["values"], row["answers"]) == ("p", SLICE, 2, 10)
