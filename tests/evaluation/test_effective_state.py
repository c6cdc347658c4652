"""Effective state is that of an independent Jacobian and of matrices of known rank."""

from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import zoo
from analysis.drawing.style import SCREEN
from analysis.figures.effective_state import bars
from analysis.figures.gallery import Study, draw
from tests.analysis.study import FakeStudy
from tests.command import ROOT, refusal
from zoo.evaluation.effective_state import EffectiveState, influence
from zoo.evaluation.trained import Trained
from zoo.mixers.base import Mixer
from zoo.mixers.cases import WIDTH, Case, build
from zoo.mixers.state import StateSize
from zoo.tasks.context import bits_of_different

SETTINGS: dict[str, Any] = {"cuts": [0.5], "tolerances": [0.1, 0.001], "rows": 2, "most_tokens": 64}


def evaluation(**changes: Any) -> EffectiveState:
    return EffectiveState(**SETTINGS | changes)


def test_the_influence_is_the_derivative_of_outputs_by_inputs():
    mixer: Mixer = build(Case("gated_deltanet")).double()
    x = torch.randn(1, 7, WIDTH, generator=torch.Generator().manual_seed(0), dtype=torch.double)

    def outputs(past: Tensor) -> Tensor:
        return mixer(torch.cat([past, x[:, 3:]], dim=1))[:, 3:]

    whole = torch.autograd.functional.jacobian(outputs, x[:, :3])
    result = influence(mixer, x, {}, cut=3)
    assert result.shape == (4 * WIDTH, 3 * WIDTH)
    assert torch.allclose(result, whole.reshape(result.shape), atol=1e-12)


def test_ranks_of_singular_values():
    ranks = evaluation()._ranks(torch.tensor([1.0, 1.0, 0.01, 1e-12]).double())
    assert (ranks["rank"], ranks["above_0.1"], ranks["above_0.001"]) == (3, 2, 3)
    assert evaluation()._ranks(torch.ones(5).double())["entropy"] == pytest.approx(5)
    nothing = evaluation()._ranks(torch.zeros(5).double())
    assert nothing["rank"] == nothing["entropy"] == 0


@pytest.mark.parametrize("name", ["attention", "shared"])
def test_a_trained_cell_uses_no_more_than_it_keeps(trained: dict[str, Path], name: str):
    held = zoo.load(trained[name])
    table = evaluation(cuts=[0.25, 0.5]).table(held)
    assert len(table) == len(held.task.segments("test")) * len(held.model.layers) * 2
    assert not {"run_id", "mixer"} & set(table), "a record's columns keep the answers from being read"
    for row in table.to_dict("records"):
        assert 0 < row["above_0.1"] <= row["above_0.001"] <= row["rank"] <= row["resident"]
        assert 1 <= row["entropy"] <= row["rank"] and row["rows"] == 2
    lengths = [segment.seq_len for segment in held.task.segments("test")]
    assert set(table["cut"]) == {round(at * length) for length in lengths for at in (0.25, 0.5)}


def test_a_cut_leaves_an_output_after_it(held: Trained):
    table = evaluation(cuts=[0.001, 0.999]).table(held)
    assert set(table["cut"]) == {1, *(table["seq_len"] - 1)}


def test_a_state_that_is_counted_too_small_is_refused(held: Trained, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(type(held.model.mixers[0]), "state_size", lambda self, seq_len: StateSize(2, 2, 2))
    with refusal("BaseConv: extend or state_size is wrong; state_size(4) (=2) must be at least 32"):
        evaluation().table(held)
    above = cycle([0.0, 3.0])  # of a row, and of the next: no more than two on average
    monkeypatch.setattr(EffectiveState, "_ranks", lambda self, sizes: {"above_0.001": next(above)})
    with refusal("state_size(4) (=2) must be at least 3"):
        evaluation().table(held)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("attention", {"cuts": [1.0]}, r"evaluation.cuts \(=\[1.0\]\) must be numbers between 0 and 1"),
        ("attention", {"most_tokens": 4}, "no slice has rows of 4 tokens or fewer"),
        ("mixed", {"rows": 0}, r"evaluation.rows \(=0\)"),
    ],
)
def test_settings_are_checked(trained: dict[str, Path], name: str, changes: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        evaluation(**changes).table(zoo.load(trained[name]))


def test_bars_are_sums_over_layers_and_means_over_seeds():
    study = Study(ROOT / "docs" / "results" / "mini_state_bits.zip")
    rows, evaluations = bars(study), study.evaluations("effective_state")
    assert (rows["needed"] < rows["entropy"]).all() and (rows["entropy"] < rows["used"]).all()
    assert (rows["used"] < rows["kept"]).all() and (rows["touched"] <= rows["kept"]).all()
    based = evaluations.loc[evaluations["run_id"].str.startswith("based-")]
    row = rows.set_index("series").loc["Based"]
    assert row["used"] == pytest.approx(based["above_0.01"].sum() / row["seeds"])
    assert row["seeds"] == based["run_id"].nunique() == len(row["run_ids"].split())
    values, pairs = 36, 8  # as many more as the filler leaves open
    assert 0 < row["needed"] * 32 <= bits_of_different(pairs, values)
    assert len(draw("effective_state", study, SCREEN).figure.axes) == 1
    miscounted = FakeStudy(study.table, evaluations.assign(resident=1), "effective_state")
    with refusal(" is wrong; its state (=2) must be at least "):
        bars(miscounted)
    smaller = FakeStudy(study.table, evaluations.assign(**{"task.vocab_size": 40.0}), "effective_state")
    assert (bars(smaller)["needed"] < rows["needed"]).all()
