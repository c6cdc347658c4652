"""The evaluation of a trained cell with a rounded state, by table and from Python."""

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import zoo
from tests.command import refusal
from tests.evaluation.conftest import Ask
from zoo.config.paths import CONF
from zoo.evaluation.coded_state import StateCoder
from zoo.evaluation.load_distance import LoadDistance
from zoo.evaluation.state_bits import StateBits
from zoo.evaluation.trained import Trained
from zoo.results import load_evaluations

SETTINGS: dict[str, Any] = yaml.safe_load((CONF / "evaluation" / "state_bits.yaml").read_text())
SETTINGS |= {"formats": ["int8", "int4", "mxfp4"], "rows": 6}
del SETTINGS["_target_"]


def state_bits(**changes: Any) -> StateBits:
    return StateBits(**SETTINGS | changes)


def test_fp32_has_the_exact_score_and_each_form_one_row(held: Trained) -> None:
    table = state_bits().table(held)
    for index, (_, rows) in enumerate(table.groupby("slice", sort=False)):
        forms = list(zip(rows["format"], rows["scale"], strict=True))
        scaled = [(name, scale) for name in ("int8", "int4") for scale in ("tensor", "key")]
        assert forms == [("fp32", "none"), *scaled, ("mxfp4", "block")]
        count = held.task.segments("test")[index].num_examples
        score = held.score(held.task.sample("test", index, range(min(6, count))))
        exact = rows.iloc[0]
        assert exact["accuracy"] == pytest.approx(score.row_accuracy) and exact["agreement"] == 1
        assert exact["loss"] == pytest.approx(score.loss, rel=1e-4) and exact["state_error"] == 0
        assert exact["bits_per_scalar"] == 32 and exact["rows"] == min(6, count)
        assert 0 < rows["state_error"].iloc[2] < rows["state_error"].iloc[4] < 0.5


def test_small_batches_give_the_same_table(held: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = state_bits(roundings=["nearest", "feedback"]).table(held)
    monkeypatch.setattr("zoo.evaluation.state_bits.SCALARS_AT_ONCE", 1)
    monkeypatch.setattr("zoo.evaluation.state_bits.ROWS_AT_LEAST", 2)
    parts = state_bits(roundings=["nearest", "feedback"]).table(held)
    for name in ("accuracy", "loss", "state_error", "bits", "agreement"):
        assert whole[name].to_numpy() == pytest.approx(parts[name].to_numpy(), rel=1e-4, abs=1e-6), name


def test_bits_are_the_most_at_any_token(held: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StateCoder, "bits", lambda it, state: [99 - state.offset] * len(it.forms))
    assert set(state_bits().table(held)["bits"]) == {98}


def test_a_rounded_cell_scores_and_writes_from_python(held: Trained) -> None:
    rounded = held.with_state(format="int4", scale="tensor")
    batch = held.task.sample("test", 1, range(5))
    row = state_bits().table(held).query("seq_len == 16 and format == 'int4' and scale == 'tensor'").iloc[0]
    score = rounded.score(batch)
    assert score.row_accuracy == pytest.approx(row["accuracy"])
    assert score.loss == pytest.approx(row["loss"], rel=1e-4) and score.loss != held.score(batch).loss
    exact = held.with_state(format="fp32", scale="none")
    assert torch.equal(exact.greedy(batch.inputs, 4), held.greedy(batch.inputs, 4))
    logits = exact.logits(batch.inputs, batch.positions)
    assert torch.allclose(logits, held.logits(batch.inputs, batch.positions), atol=1e-5)
    grid = LoadDistance(loads=[2], distances=[4], farthest=1, rows=4)
    assert len(grid.table(held.with_state(format="int2", rounding="stochastic"))) == 1


@pytest.mark.parametrize("every", [1, 4])
def test_a_continuation_is_reproducible_and_equals_the_whole(held: Trained, every: int) -> None:
    """A continuation does not round the entries of its initial state again."""
    rounded = held.with_state(format="int3", rounding="stochastic", seed=4, every=every)
    inputs = held.task.sample("test", 1, range(3)).inputs
    _, state = rounded.extend(inputs[:, :7])
    first, second = (rounded.extend(inputs[:, 7:], state)[0] for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(torch.cat([rounded.extend(inputs[:, :7])[0], first], 1), rounded.extend(inputs)[0])


def test_distances_make_rows_of_the_probe(held: Trained) -> None:
    table = state_bits(loads=[2, 3], distances=[4, 8], formats=["int4"]).table(held)
    lengths = table[["num_kv_pairs", "seq_len"]].drop_duplicates().to_numpy().tolist()
    assert lengths == [[2, 8], [2, 12], [3, 14]]  # 3 pairs have no room in 4 tokens


def test_results_are_written_once(one: Path, ask: Ask) -> None:
    words = [one, "evaluation=state_bits", "evaluation.formats=[int4]", "evaluation.rows=4"]
    ask(*words)
    assert "1 were there already" in ask(*words)[0]
    table = load_evaluations(one.parent, "state_bits")
    assert set(table["format"]) == {"fp32", "int4"} and set(table["evaluation.rows"]) == {4}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"formats": ["int5"]}, "evaluation.formats (='int5') must be one of"),
        ({"rows": 1}, "evaluation.rows (=1) must be at least 2"),
        ({"scales": ["block"], "block": 3}, "a block of int8 (=3) must divide"),
        ({"loads": [3], "distances": [4]}, "no distance leaves room"),
    ],
)
def test_bad_settings_are_one_line(held: Trained, changes: dict[str, Any], words: str) -> None:
    with refusal(words):
        state_bits(**changes).table(held)


def test_a_cell_without_exact_decoding_is_refused(inexact: Trained) -> None:
    for use in (state_bits().table, lambda cell: cell.with_state(format="int4")):
        with pytest.raises(ValueError, match="has no exact decoding"):
            use(inexact)


def test_double_and_mixed_precision(trained: dict[str, Path]) -> None:
    for name in ("wide", "mixed"):
        table = state_bits(formats=["bf16"], roundings=["stochastic"]).table(zoo.load(trained[name]))
        assert len(table) == 4 and not table["loss"].isna().to_numpy().any()
