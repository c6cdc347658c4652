"""What models of text lose to attention, beside what the same mixers recall."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from analysis import recall_gap
from analysis.drawing.style import SCREEN
from analysis.figures.gallery import Study, texts
from analysis.statistics.rank_correlation import rank_correlation
from tests.analysis import study
from tests.analysis.test_ar_gap import answers

HITS = {"attention": 1.0, "near": 1.5, "far": 2.0, "lost": 3.0}  # nats, and .5 less of the second seed


def studies(recalled: dict[str, float], task: str = "mqar") -> tuple[study.Asked, study.Asked]:
    text = [study.record(name, 0.5, seed=seed, task="text") for name in HITS for seed in (0, 1)]
    rows = [row for cell in text for row in answers(cell["run_id"], HITS[cell["mixer"]], 3.0)]
    recall = [
        study.record(name, accuracy - 0.1 * seed, seed=seed, task=task)
        for name, accuracy in recalled.items()
        for seed in (0, 1)
    ]
    of_text = study.Asked(study.table(text), pd.DataFrame(rows), "ar_hits")
    return of_text, replace(of_text, table=study.table(recall), found=pd.DataFrame())


def test_mixers_stand_beside_themselves_and_attention_is_not_ranked() -> None:
    recalled = {"attention": 0.2, "near": 1.0, "far": 0.5, "lost": 0.25, "elsewhere": 0.9}
    found = recall_gap.picture(*studies(recalled), SCREEN)  # type: ignore[arg-type]
    rows = found.rows.set_index("mixer")
    assert set(rows.index) == set(HITS)
    assert rows.loc["far", ["gap", "gap_low", "gap_high"]].tolist() == [1.0, 1.0, 1.0]
    assert rows.loc["far", ["accuracy", "accuracy_low", "accuracy_high"]].tolist() == [0.45, 0.4, 0.5]
    assert "of the 3 mixers beside attention -1.00 (-1.00 to " in found.sentences[0]


def test_mixers_that_only_one_study_has_are_no_ranking() -> None:
    two = studies(dict.fromkeys(("attention", "near", "lost"), 0.5))
    with pytest.raises(ValueError, match="needs 3 mixers that both studies have; there are 2"):
        recall_gap.picture(*two, SCREEN)  # type: ignore[arg-type]


def test_rank_correlation_is_scipys_and_its_interval_is_that_of_mixers_and_seeds() -> None:
    rng = np.random.default_rng(1)
    x = [rng.normal(size=3).round(1) for _ in range(9)]
    y = [seeds + rng.normal(size=3) for seeds in x]
    y[0] = y[1]  # a tie
    found = rank_correlation(x, y)
    assert found.rho == pytest.approx(spearmanr(*([s.mean() for s in axis] for axis in (x, y))).statistic)
    assert found.low < found.rho < found.high
    still = [[np.full(3, seeds.mean()) for seeds in axis] for axis in (x, y)]
    assert rank_correlation(*still)[1:] != found[1:], "the seeds count"
    apart = [np.full(3, float(i)) for i in range(9)]
    assert rank_correlation(apart, apart) == pytest.approx((1, 1, 1))
    assert np.isnan(rank_correlation(apart, [np.zeros(3)] * 9)).all()


def test_the_committed_picture_is_made_from_the_committed_results() -> None:
    """Byte by byte.  After a change that is meant: make figures."""
    docs = Path(__file__).parents[2] / "docs"
    archives = [Study(docs / "results" / f"mini_forgetting{end}.zip") for end in ("", "_mqar")]
    for ending, text in texts(recall_gap.picture(*archives, SCREEN)).items():
        assert (docs / "figures" / f"recall_gap{ending}").read_text() == text, f"{ending}: make figures"
