"""The picture of what an overwritten key brings back: means, ends of its series, and what is order-blind."""

import pandas as pd
import pytest

from analysis.figures import interference as picture
from tests.analysis import study


def answers(run_id: str, latest: dict[int, float]) -> pd.DataFrame:
    """So much is the last value at each number of overwrites, and all else the first."""
    rows = []
    for count, share in latest.items():
        kinds = {str(age): 0.0 for age in range(count + 1)} | {"another": 0.0, "none": 0.0}
        kinds[str(count)] = 1 - share
        kinds["0"] = share if count else 1.0
        blind = 1 / (count + 1)
        rows += [
            {"run_id": run_id, "mixer": "x", "seed": 0, "slice": f"overwrites={count}", "overwrites": count,
             "kind": kind, "share": value, "answers": 64, "order_blind": blind if kind.isdigit() else 0.0}
            for kind, value in kinds.items()
        ]  # fmt: skip
    return pd.DataFrame(rows)


def test_means_of_seeds_and_what_is_order_blind_are_drawn() -> None:
    scores = {"attention": (0.4, 0.6), "deltanet": (1.0, 1.0)}
    records = [cell for mixer in scores for cell in study.seeds(mixer, (0.5, 0.5))]
    found = [
        answers(record["run_id"], {0: 1.0, 1: share, 4: share / 2})
        for record, share in zip(records, [*scores["attention"], *scores["deltanet"]], strict=True)
    ]
    asked = study.Asked(study.table(records), pd.concat(found, ignore_index=True), "interference")
    made = asked.drawn(picture)
    rows = made.rows.set_index(["mixer", "what", "overwrites"])["accuracy"]
    assert rows["attention", picture.LATEST, 1] == pytest.approx(0.5)
    assert rows["attention", picture.OLDEST, 4] == pytest.approx(0.75)
    assert rows["deltanet", picture.LATEST, 0] == 1 and rows["deltanet", picture.ANOTHER, 4] == 0
    assert (made.rows["seeds"] == 2).all() and ("attention", picture.OLDEST, 0) not in rows
    last, first, _ = made.figure.axes
    blind = [line.get_ydata() for line in (last.lines[-1], first.lines[-1])]
    assert [list(values) for values in blind] == [[1, 0.5, 0.2], [0.5, 0.2]]
    assert [label.get_text() for label in last.get_xticklabels()] == ["0", "1", "4"]
