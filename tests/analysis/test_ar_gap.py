"""The picture of what a model loses to attention at tokens that it could look up."""

import pandas as pd
import pytest

from analysis.figures import ar_gap as picture
from tests.analysis import study


def answers(run_id: str, hit: float, new: float, cutoff: int = 100) -> list[dict]:
    """30 hits and 70 other tokens."""
    parts = {"hit": (30, hit), "seen": (0, None), "new": (70, new)}
    head = {"run_id": run_id, "mixer": "?", "slice": "seq_len=128", "cutoff": cutoff}
    return [head | {"part": p, "tokens": tokens, "loss": loss} for p, (tokens, loss) in parts.items()]


@pytest.fixture
def asked() -> study.Asked:
    """Attention's two seeds lose 1 and 2 nats at hits, a window's 1.5 and 3; both lose 3 elsewhere."""
    losses = {"attention": (1.0, 2.0), "window": (1.5, 3.0)}
    records = [study.record(name, 0.5, seed=seed) for name in losses for seed in (0, 1)]
    rows = [
        row
        for record in records
        for row in answers(record["run_id"], losses[record["mixer"]][record["seed"]], 3.0)
        + answers(record["run_id"], 9.0, 9.0, cutoff=1)
    ]
    return study.Asked(study.table(records), pd.DataFrame(rows), "ar_hits")


def test_each_seed_is_held_against_attentions_of_that_seed(asked: study.Asked) -> None:
    found = asked.drawn(picture)
    rows = found.rows.set_index("mixer")
    assert rows.loc["window", ["gap", "low", "high"]].tolist() == [0.75, 0.5, 1.0]
    assert rows.loc["window", "share"] == pytest.approx(1) and pd.isna(rows.loc["attention", "share"])
    assert rows["gap"]["attention"] == 0 and rows["hit_loss"]["window"] == 2.25


def test_what_has_no_attention_has_no_gap(asked: study.Asked) -> None:
    asked.table = asked.table.query("mixer != 'attention'")
    with pytest.raises(ValueError, match="needs one point of mixer=attention, and there are 0"):
        asked.drawn(picture)
