"""The demo, run as `make demo` runs it: the order that its picture shows (slow: about five minutes)."""

from pathlib import Path

import pytest

from analysis import pareto
from tests.command import finish, start
from zoo.results.table import load

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
KNOBS = ["mixer.window", "mixer.feature_dim", "mixer.d_state", "mixer.top_k"]


@pytest.fixture(scope="module")
def test_rows(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("demo")
    code, out, err = finish(start("-m", "experiment=demo", "results=results", cwd=folder), seconds=1500)
    assert code == 0, out + err
    assert pareto.main([str(folder / "results")]) == 0
    assert (Path(folder) / "results/figures/pareto.png").stat().st_size > 10_000
    frame = load(folder / "results")
    return frame[frame.split == "test"]


def mean(rows, mixer: str, **settings: int) -> float:
    """Over seeds and the four test slices."""
    rows = rows[rows.mixer == mixer]
    for key, value in settings.items():
        rows = rows[rows[f"mixer.{key}"] == value]
    assert rows.run_id.nunique() == 2 and rows["slice"].nunique() == 4
    return rows.accuracy.mean()


def test_the_order_is_the_known_one(test_rows):
    based = [mean(test_rows, "based", feature_dim=f) for f in (2, 3, 4)]
    linear = [mean(test_rows, "linear_attention", feature_dim=f) for f in (4, 16)]
    windows = [mean(test_rows, "sliding_window", window=w) for w in (8, 16, 32)]
    assert mean(test_rows, "attention") > 0.99
    assert based[0] + 0.04 < based[1] < based[2]
    assert linear[0] + 0.1 < linear[1]
    assert windows[0] + 0.1 < windows[1] and windows[1] + 0.1 < windows[2]
    assert based[0] > windows[0] + 0.2  # of nearly the same size
    assert mean(test_rows, "mamba", d_state=16) > windows[0]  # the seed decides how far
    assert mean(test_rows, "se_attn", top_k=8) > mean(test_rows, "se_attn", top_k=2) + 0.1


def test_no_window_recalls_what_it_cannot_see(test_rows):
    """0.03 for the guesses that hit: a row of 2 pairs has 20 values to guess from."""
    bounded = test_rows[test_rows.coverage < 1]
    assert len(bounded) > 10
    room = 0.03 + bounded.apply(lambda row: (1 - row.coverage) / row.num_kv_pairs, axis=1)
    assert (bounded.accuracy <= bounded.coverage + room).all()
