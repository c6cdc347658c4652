"""Pictures of evaluations: the gap to attention, recall beside it, speeds, forgetting curves."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from analysis import recall_gap
from analysis.drawing.style import SCREEN
from analysis.figures import ar_gap, effective_state, forgetting_curve, speed
from analysis.figures.gallery import Study
from analysis.statistics.ranks import rank_correlation
from tests.analysis import study
from tests.command import ROOT


def answers(run_id: str, hit: float, new: float, cutoff: int = 100) -> list[dict]:
    """30 hits and 70 other tokens."""
    parts = {"hit": (30, hit), "seen": (0, None), "new": (70, new)}
    head = {"run_id": run_id, "mixer": "?", "slice": "seq_len=128", "cutoff": cutoff}
    return [head | {"part": p, "tokens": tokens, "loss": loss} for p, (tokens, loss) in parts.items()]


@pytest.fixture
def of_hits() -> study.FakeStudy:
    """Attention's two seeds lose 1 and 2 nats at hits, a window's 1.5 and 3; both lose 3 elsewhere."""
    losses = {"attention": (1.0, 2.0), "window": (1.5, 3.0)}
    records = study.mixers(dict.fromkeys(losses, (0.5, 0.5)))
    rows = [
        row
        for record in records
        for row in answers(record["run_id"], losses[record["mixer"]][record["seed"]], 3.0)
        + answers(record["run_id"], 9.0, 9.0, cutoff=1)
    ]
    return study.FakeStudy(study.table(records), pd.DataFrame(rows), "ar_hits")


def test_each_seed_is_compared_with_attentions_same_seed(of_hits: study.FakeStudy) -> None:
    picture = of_hits.drawn(ar_gap)
    rows = picture.rows.set_index("mixer")
    assert rows.loc["window", ["gap", "low", "high"]].tolist() == [0.75, 0.5, 1.0]
    assert rows.loc["window", "share"] == pytest.approx(1) and pd.isna(rows.loc["attention", "share"])
    assert rows["gap"]["attention"] == 0 and rows["hit_loss"]["window"] == 2.25


def test_a_study_without_attention_has_no_gap(of_hits: study.FakeStudy) -> None:
    of_hits.table = of_hits.table.query("mixer != 'attention'")
    with pytest.raises(ValueError, match="needs one point of mixer=attention, and there are 0"):
        of_hits.drawn(ar_gap)


HITS = {"attention": 1.0, "near": 1.5, "far": 2.0, "lost": 3.0}  # nats, and .5 less of the second seed


def studies(recalled: dict[str, float]) -> tuple[study.FakeStudy, study.FakeStudy]:
    text = study.mixers(dict.fromkeys(HITS, (0.5, 0.5)), task="text")
    rows = [row for cell in text for row in answers(cell["run_id"], HITS[cell["mixer"]], 3.0)]
    recall = study.mixers({name: (best, best - 0.1) for name, best in recalled.items()})
    of_text = study.FakeStudy(study.table(text), pd.DataFrame(rows), "ar_hits")
    return of_text, replace(of_text, table=study.table(recall), answers=pd.DataFrame())


def test_each_mixers_gap_is_beside_its_recall_and_attention_is_not_ranked() -> None:
    recalled = {"attention": 0.2, "near": 1.0, "far": 0.5, "lost": 0.25, "elsewhere": 0.9}
    picture = recall_gap.picture(*studies(recalled), SCREEN)  # type: ignore[arg-type]
    rows = picture.rows.set_index("mixer")
    assert set(rows.index) == set(HITS)
    assert rows.loc["far", ["gap", "gap_low", "gap_high"]].tolist() == [1.0, 1.0, 1.0]
    assert rows.loc["far", ["accuracy", "accuracy_low", "accuracy_high"]].tolist() == [0.45, 0.4, 0.5]
    assert "of the 3 mixers beside attention -1.00 (-1.00 to " in picture.sentences[0]


def test_fewer_than_three_mixers_in_both_studies_are_refused() -> None:
    two = studies(dict.fromkeys(("attention", "near", "lost"), 0.5))
    with pytest.raises(ValueError, match="needs 3 mixers of both studies; there are 2"):
        recall_gap.picture(*two, SCREEN)  # type: ignore[arg-type]


def test_rank_correlation_is_scipys_and_its_interval_counts_mixers_and_seeds() -> None:
    rng = np.random.default_rng(1)
    x = [rng.normal(size=3).round(1) for _ in range(9)]
    y = [seeds + rng.normal(size=3) for seeds in x]
    y[0] = y[1]  # a tie
    result = rank_correlation(x, y)
    assert result.rho == pytest.approx(spearmanr(*([s.mean() for s in axis] for axis in (x, y))).statistic)
    assert result.low < result.rho < result.high
    still = [[np.full(3, seeds.mean()) for seeds in axis] for axis in (x, y)]
    assert rank_correlation(*still)[1:] != result[1:], "the seeds count"
    apart = [np.full(3, float(i)) for i in range(9)]
    assert rank_correlation(apart, apart) == pytest.approx((1, 1, 1))
    assert np.isnan(rank_correlation(apart, [np.zeros(3)] * 9)).all()


def test_the_committed_picture_is_made_from_the_committed_results() -> None:
    archives = [Study(ROOT / "docs" / "results" / f"mini_forgetting{end}.zip") for end in ("", "_mqar")]
    study.is_committed(recall_gap.picture(*archives, SCREEN), "recall_gap")


def speeds(records: list[dict]) -> pd.DataFrame:
    """Return speeds that grow with the batch and the seed; the decoding of "blurred" is not exact."""
    return pd.DataFrame(
        {"run_id": record["run_id"], "mixer": "?", "what": what, "seq_len": length, "batch": batch}
        | {"tokens_per_second": 100.0 * batch * (1 + record["seed"]), "state_bytes": 4 * batch * length}
        for record, what, length, batch in product(records, ("prefill", "decode"), (64, 256), (1, 8))
        if record["mixer"] != "blurred" or what == "prefill"
    )


@pytest.fixture
def timed() -> study.FakeStudy:
    """Two seeds of one mixer, and one whose decoding is not exact."""
    records = [*study.seeds("fast", (0.5, 0.5), state=10), study.record("blurred", 0.75, state=99)]
    return study.FakeStudy(study.table(records), speeds(records), "speed")


def test_speed_against_length_and_accuracy_against_speed(timed: study.FakeStudy) -> None:
    picture = timed.drawn(speed)
    row = picture.rows.set_index(["mixer", "what", "seq_len", "batch"]).loc[("fast", "decode", 64, 8)]
    assert row[["slowest", "tokens_per_second", "fastest", "cells"]].tolist() == [800, 1200, 1600, 2]
    prefill, decode, state, by_prefill, by_decode, by_state = picture.figure.axes
    assert [len(ax.lines) for ax in (prefill, decode, state)] == [4, 2, 4]  # a point and batch each
    assert {line.get_linestyle() for line in decode.lines} == {"-", "--"}
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in by_decode.lines] == [(1200, 0.5)]
    assert sorted(line.get_ydata()[0] for line in by_prefill.lines) == [0.5, 0.75]
    assert {line.get_xdata()[0] for line in by_state.lines} == {4 * 8 * 256}
    assert "1 and 8 sequences at once" in picture.sentences[0] and "at 256 tokens" in picture.sentences[0]


def test_repeated_timings_are_refused(timed: study.FakeStudy) -> None:
    timed.answers = pd.concat([timed.answers] * 2)
    with pytest.raises(ValueError, match="asked more than once"):
        timed.drawn(speed)


def test_points_of_one_mixer_are_drawn_apart_by_their_layers() -> None:
    cells = [study.record("fast", 0.5, d_model=width) for width in (32, 64)]
    layers = dict(zip([cell["run_id"] for cell in cells], ("Fast", "Fast, Attention"), strict=True))
    picture = study.FakeStudy(study.table(cells), speeds(cells), "speed", layers=layers).drawn(speed)
    assert set(picture.rows["series"]) == {"Fast (Fast)", "Fast (Fast, Attention)"}
    assert len({line.get_marker() for line in picture.figure.axes[4].lines}) == 2


def test_used_state_is_of_each_point_alone_and_of_one_question() -> None:
    """Two sizes of one mixer, and a cell at a learning rate that was not chosen."""
    cells = [study.record("based", 0.9, state=state, feature_dim=state // 10) for state in (100, 200)]
    worse = study.record("based", 0.5, lr=0.1, state=100, feature_dim=10)
    rows = [
        {"run_id": cell["run_id"], "mixer": "based", "slice": "seq_len=64", "cut": 8, "layer": layer}
        | {"resident": cell["state_resident"] / 2, "touched": 1.0, "entropy": 1.0}
        | {effective_state.ABOVE: 1.0 if cell is worse else 20.0}
        for cell, layer in product([*cells, worse], (0, 1))
    ]
    asked = study.FakeStudy(study.table([*cells, worse]), pd.DataFrame(rows), "effective_state")
    bars = effective_state.bars(asked).set_index("series")  # type: ignore[arg-type]
    assert bars["kept"].to_dict() == {"Based feature_dim=10": 100, "Based feature_dim=20": 200}
    assert set(bars["used"]) == {40} and set(bars["seeds"]) == {1}
    asked.answers = pd.concat([asked.answers] * 2)
    with pytest.raises(ValueError, match="asked in several ways"):
        effective_state.bars(asked)  # type: ignore[arg-type]


LENGTHS = (8, 16, 32, 64)


def curve(run_id: str, remembers: int) -> list[dict]:
    """Return answers of a model that copies perfectly up to a length and else guesses one in five."""
    return [
        {"run_id": run_id, "mixer": "?", "length": length, "kind": kind, "repeat": repeat, "tokens": 4}
        | {"prefix": "" if kind == "copy" else "corpus"}
        | {"accuracy": 1.0 if kind == "copy" and length <= remembers else 0.2}
        for length, kind, repeat in product(LENGTHS, ("copy", "lm"), range(3))
    ]


@pytest.fixture
def remembered() -> study.FakeStudy:
    """A mixer whose two seeds remember 16 and 32 tokens, and one that remembers all."""
    records = [*study.seeds("fades", (0.5, 0.5), state=10), study.record("keeps", 0.5, state=99)]
    rows = [curve(r["run_id"], far) for r, far in zip(records, (16, 32, 64), strict=True)]
    return study.FakeStudy(study.table(records), pd.DataFrame(sum(rows, [])), "forgetting_curve")  # noqa: RUF017


def test_each_setting_has_a_panel_with_its_fine_and_coarse_length(remembered: study.FakeStudy) -> None:
    picture = remembered.drawn(forgetting_curve)
    lengths = picture.tables["lengths"].set_index("mixer")
    assert lengths["fine"].to_dict() == {"fades": "16", "keeps": ">64"}
    assert lengths["coarse"].to_dict() == {"fades": "32", "keeps": ">64"}  # one of two seeds still copies
    assert lengths["seeds"].to_dict() == {"fades": 2, "keeps": 1}
    fades, keeps = picture.figure.axes
    assert [line.get_xdata()[0] for line in fades.lines[2:]] == [16, 32]
    assert "fine >64, coarse >64" in keeps.get_title()
    assert picture.rows.query("kind == 'copy' and length == 32")["accuracy"].tolist() == [0.6, 1.0]


def test_an_outside_model_is_drawn_with_ours_and_without(remembered: study.FakeStudy) -> None:
    remembered.others = pd.DataFrame(curve("hf-book_llama", 32))
    picture = remembered.drawn(forgetting_curve)
    assert picture.figure.axes[-1].get_title() == "book_llama\nfine 32, coarse 32"
    assert len(picture.figure.axes) == 3
    remembered.table = remembered.table[:0]
    [alone] = remembered.drawn(forgetting_curve).figure.axes
    assert alone.get_title().startswith("book_llama")


def test_points_of_one_name_are_distinguished_by_their_layers(remembered: study.FakeStudy) -> None:
    other = study.record("keeps", 0.5, state=50, d_model=32)
    remembered.table = pd.concat([remembered.table, study.table([other])], ignore_index=True)
    remembered.answers = pd.concat([remembered.answers, pd.DataFrame(curve(other["run_id"], 8))])
    keeps = sorted(run for run in set(remembered.answers["run_id"]) if run.startswith("keeps"))
    remembered.layers = dict(zip(keeps, ("Mamba2, Attention", "BaseConv, Mamba2"), strict=True))
    picture = remembered.drawn(forgetting_curve)
    titles = [ax.get_title().split("\n")[0] for ax in picture.figure.axes]
    assert {"Keeps d_model=32 (Mamba2, Attention)", "Keeps d_model=64 (BaseConv, Mamba2)"} < set(titles)


def test_repeated_answers_are_refused(remembered: study.FakeStudy) -> None:
    remembered.answers = pd.concat([remembered.answers] * 2)
    with pytest.raises(ValueError, match="asked in several ways"):
        remembered.drawn(forgetting_curve)
