"""python -m analysis.statistics: its tables, and accuracy by kind of answer."""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.statistics import __main__
from analysis.statistics.bounds import VOCAB_SIZE
from analysis.statistics.groups import by_group, means
from tests.analysis import fake, study
from tests.command import Run
from zoo.results import store


@pytest.fixture
def home(tmp_path: Path) -> Path:
    two = [("attention", 64), ("based", 32)]
    records = [record for record in fake.records(seeds=2) if (record["mixer"], record["d_model"]) in two]
    return fake.write(tmp_path / "study", of=records)


def test_every_table_of_one_load() -> None:
    table = fake.table().assign(**{VOCAB_SIZE: 256})
    table = table.loc[table["mixer"].isin(["attention", "based", "mamba", "sliding_window"])]
    tables = __main__.statistics(table)
    assert set(tables) == {"points", "slices", "series", "pairs", "equal_state", "capacity", "exponents"}
    points = tables["points"].set_index(["series", "knobs"])
    assert len(points) == 12 and points["frontier_share"].max() == 1
    assert points.loc[points["on_frontier"], "frontier_share"].gt(0).all()
    assert points["good_low"].le(points["lr"]).all() and points["good_high"].ge(points["lr"]).all()
    assert len(tables["slices"]) == 12 * len(fake.SLICES)
    assert tables["slices"]["bits_per_scalar"].notna().all()
    based = tables["series"].set_index("series").loc["Based"]
    assert based["area_low"] <= based["area"] <= based["area_high"]
    assert {2.0**i for i in range(10, 14)} <= set(tables["equal_state"]["state"])


def test_each_load_has_its_frontier() -> None:
    """Twice the accuracy at the other load: no frontier, and no mean, holds both."""
    records = [
        cell
        for n, (state, accuracy) in product((2, 4), ((10, 0.6), (20, 0.8)))
        for cell in study.seeds("m", [accuracy * 2 / n] * 2, state=state, d_state=state, slices=[(8 * n, n)])
    ]
    result = __main__.statistics(study.table(records))["points"]
    assert result["load"].nunique() == 2 and result["on_frontier"].all() and len(result) == 4


def test_distances_are_counted_at_the_chosen_learning_rate() -> None:
    table = fake.table()
    one = table.loc[(table["mixer"] == "attention") & (table["seed"] == 0), "run_id"].unique()
    counted = pd.DataFrame(row for run_id in one for row in counts(run_id, (8, 10, 9)))
    result = __main__.kinds(counted, table)["distances"]
    assert result["series"].tolist() == ["Attention"] and result["answers"].item() == 10


def test_the_command_writes_its_tables_the_same_each_time(home: Path, run: Run) -> None:
    printed, errors = run(__main__.main, home)
    assert "frontier_share" in printed and "Based" in printed and errors == ""
    points = pd.read_csv(home / "statistics" / "points.csv")
    assert len(points) == 3 and np.isfinite(points["solved"]).all()
    before = {path.name: path.read_bytes() for path in (home / "statistics").iterdir()}
    (home / "statistics" / "group_means.csv").touch()  # as if the folder had held such cells before
    assert "group_means.csv, which has no rows now" in run(__main__.main, home)[0]
    assert {path.name: path.read_bytes() for path in (home / "statistics").iterdir()} == before


def test_an_impossible_cell_and_an_unreadable_one_are_reported(
    home: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "attention-0000" / "result.json").write_text("{")
    monkeypatch.setattr(__main__.bounds, "in_words", lambda wrong: [f"{len(wrong)} above what is possible"])
    _, errors = run(__main__.main, home, code=3)
    assert "error: not read: " in errors and "above what is possible" in errors
    assert store.is_done(home / "attention-0000")


def test_capacities_are_of_one_task_at_a_time() -> None:
    rows = fake.table(seeds=1).query("mixer in ['based', 'mamba']")
    changes = {"-b": {"task.filler": "random"}, "-c": {"task": "copy", "num_kv_pairs": None}}
    others = [rows.assign(run_id=rows["run_id"] + of, point=rows["point"] + of) for of in changes]
    changed = [each.assign(accuracy=0.0, **of) for each, of in zip(others, changes.values(), strict=True)]
    both = __main__.statistics(pd.concat([rows, *changed]))["capacity"].set_index("load")
    assert set(both.index) == {"task=mqar, filler=random", "task=mqar, filler=safe"}
    alone = __main__.statistics(rows)["capacity"].drop(columns="load")
    assert both.loc["task=mqar, filler=safe"].reset_index(drop=True).equals(alone)


CHOSEN = pd.DataFrame({"point": ["p", "q"], "lr": [0.1, 0.1]})
SLICE = "seq_len=64,num_kv_pairs=8"


def cells(seeds: int, point: str = "p", lr: float = 0.1) -> pd.DataFrame:
    return pd.DataFrame(
        {"run_id": f"{point}{lr}{seed}", "point": point, "lr": lr, "seed": seed, "status": "ok"}
        for seed in range(seeds)
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
    result = by_group(pd.DataFrame(counted), "distance", table, CHOSEN).set_index("distance")
    assert result["accuracy"].to_dict() == pytest.approx({8: 24 / 40, 16: 0.0})
    assert result["answers"].to_dict() == {8: 40, 16: 4}
    assert result.loc[8, ["low", "high"]].tolist() == pytest.approx([0.5, 0.9])
    assert set(result["seeds"]) == {2} and set(result["diverged"]) == {0}


def test_a_diverged_seed_is_wrong_on_as_many_answers_as_the_others() -> None:
    counted = [*counts("p0.10", (8, 10, 10)), *counts("p0.11", (8, 20, 20))]
    table = cells(4).assign(status=["ok", "ok", "diverged", "ok"])  # the last one has no such group
    result = by_group(pd.DataFrame(counted), "distance", table, CHOSEN).iloc[0]
    assert result["accuracy"] == pytest.approx(30 / 45) and result["seeds"] == 3
    assert result["diverged"] == 1 and result["answers"] == 30


def test_one_seed_leaves_no_interval_and_no_counts_no_rows() -> None:
    result = by_group(pd.DataFrame(counts("p0.10", (8, 10, 3))), "distance", cells(1), CHOSEN)
    assert result["accuracy"].item() == 0.3 and np.isnan(result["low"].item())
    assert by_group(pd.DataFrame(counts("other", (8, 1, 1))), "distance", cells(1), CHOSEN).empty


def test_groups_of_words_are_counted_apart_from_distances() -> None:
    words = [row | {"group": "kind"} for row in counts("p0.10", ("new", 8, 4), ("kept", 2, 2))]
    counted = pd.DataFrame([*counts("p0.10", (8, 10, 5)), *words])
    result = by_group(counted, "kind", cells(1), CHOSEN)
    assert result.set_index("kind")["accuracy"].to_dict() == {"new": 0.5, "kept": 1.0}
    assert by_group(counted, "distance", cells(1), CHOSEN)["distance"].tolist() == [8]


def test_macro_counts_every_kind_alike_and_micro_every_answer() -> None:
    counted = pd.DataFrame(counts("p0.10", (3, 8, 4), (7, 2, 2)))
    result = by_group(counted, "distance", cells(1), CHOSEN).rename(columns={"distance": "value"})
    row = means(result.assign(group="answer")).iloc[0]
    assert row["macro"] == pytest.approx((0.5 + 1.0) / 2) and row["micro"] == pytest.approx(6 / 10)
    assert (row["point"], row["slice"], row["values"], row["answers"]) == ("p", SLICE, 2, 10)
