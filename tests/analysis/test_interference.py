"""The picture of what an overwritten key brings back: means over seeds, and the order-blind share."""

import pandas as pd
import pytest

from analysis.figures import interference
from tests.analysis import study


def answers(run_id: str, latest: dict[int, float]) -> pd.DataFrame:
    """Return a cell's answers.  latest: overwrites -> the share of last values; the rest are first ones."""
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


def test_means_over_seeds_and_the_order_blind_share_are_drawn() -> None:
    scores = {"attention": (0.4, 0.6), "deltanet": (1.0, 1.0)}
    records = study.mixers(dict.fromkeys(scores, (0.5, 0.5)))
    parts = [
        answers(record["run_id"], {0: 1.0, 1: share, 4: share / 2})
        for record, share in zip(records, [*scores["attention"], *scores["deltanet"]], strict=True)
    ]
    parts += [part.assign(slice=part["slice"] + ",num_kv_pairs=8") for part in parts]
    overwritten = study.FakeStudy(study.table(records), pd.concat(parts, ignore_index=True), "interference")
    picture = overwritten.drawn(interference)
    rows = picture.rows.set_index(["mixer", "what", "overwrites"])["accuracy"]
    assert rows["attention", interference.LATEST, 1] == pytest.approx(0.5)
    assert rows["attention", interference.OLDEST, 4] == pytest.approx(0.75)
    assert rows["deltanet", interference.LATEST, 0] == 1 and rows["deltanet", interference.ANOTHER, 4] == 0
    assert (picture.rows["seeds"] == 2).all() and ("attention", interference.OLDEST, 0) not in rows
    last, first, _ = picture.figure.axes
    blind = [line.get_ydata() for line in (last.lines[-1], first.lines[-1])]
    assert [list(values) for values in blind] == [[1, 0.5, 0.2], [0.5, 0.2]]
    assert [label.get_text() for label in last.get_xticklabels()] == ["0", "1", "4"]
