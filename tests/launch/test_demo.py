"""The demo has its expected scores; run as by `make demo` (slow: about five minutes)."""

from pathlib import Path

import pytest

from analysis import expected, pareto
from tests.command import ROOT, finish, start
from zoo.results.table import load


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_demo_has_its_expected_scores_and_none_that_a_window_cannot_have(tmp_path: Path):
    """Guesses may add 0.03 to what a window sees: a row of 2 pairs has 20 values to guess from."""
    results = tmp_path / "results"
    code, out, err = finish(start("-m", "experiment=demo", "results=results", cwd=tmp_path), seconds=1500)
    assert code == 0, out + err
    assert pareto.main([str(results)]) == 0
    assert (results / "figures/pareto.png").stat().st_size > 10_000
    assert expected.main([str(results), str(ROOT / "sweeps/demo.expected.csv"), "--strict"]) == 0
    bounded = load(results).query("split == 'test' and coverage < 1")
    assert len(bounded) > 10
    room = 0.03 + bounded.apply(lambda row: (1 - row.coverage) / row.num_kv_pairs, axis=1)
    assert (bounded.accuracy <= bounded.coverage + room).all()
