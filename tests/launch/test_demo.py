"""The demo orders the mixers as its picture shows; run as by `make demo` (slow: about five minutes)."""

import pytest

from analysis import pareto
from tests.command import finish, start
from zoo.results.table import load

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("demo")
    code, out, err = finish(start("-m", "experiment=demo", "results=results", cwd=folder), seconds=1500)
    assert code == 0, out + err
    assert pareto.main([str(folder / "results")]) == 0
    assert (folder / "results/figures/pareto.png").stat().st_size > 10_000
    frame = load(folder / "results")
    return frame[frame.split == "test"]


def mean(rows, mixer: str, **settings: int) -> float:
    """Return the mean accuracy over seeds and the four test slices."""
    rows = rows[rows.mixer == mixer]
    for key, value in settings.items():
        rows = rows[rows[f"mixer.{key}"] == value]
    assert rows.run_id.nunique() == 2 and rows["slice"].nunique() == 4
    return rows.accuracy.mean()


def test_mixers_are_in_the_expected_order(table):
    based = [mean(table, "based", feature_dim=f) for f in (2, 3, 4)]
    linear = [mean(table, "linear_attention", feature_dim=f) for f in (4, 16)]
    windows = [mean(table, "sliding_window", window=w) for w in (8, 16, 32)]
    assert mean(table, "attention") > 0.99
    assert based[0] + 0.04 < based[1] < based[2]
    assert linear[0] + 0.1 < linear[1]
    assert windows[0] + 0.1 < windows[1] and windows[1] + 0.1 < windows[2]
    assert based[0] > windows[0] + 0.2  # of nearly the same size
    assert mean(table, "mamba", d_state=16) > windows[0]  # the seed decides how far
    assert mean(table, "se_attn", top_k=8) > mean(table, "se_attn", top_k=2) + 0.1


def test_no_window_recalls_what_it_cannot_see(table):
    """Guesses may add 0.03: a row of 2 pairs has 20 values to guess from."""
    bounded = table[table.coverage < 1]
    assert len(bounded) > 10
    room = 0.03 + bounded.apply(lambda row: (1 - row.coverage) / row.num_kv_pairs, axis=1)
    assert (bounded.accuracy <= bounded.coverage + room).all()
