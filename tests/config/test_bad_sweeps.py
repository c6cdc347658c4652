"""A sweep that says nothing, or two things at once, is refused in one line before anything starts."""

from pathlib import Path

import pytest

from hydra_plugins.zoo_plugins import sweeps
from tests.command import SMALL, Zoo

GRIDS = "hydra.sweeper.grids="
WINDOW = "mixer=sliding_window"

BAD = [
    (["sweep=nope"], "unknown sweep nope. (there are: based_fig2, "),
    (["sweep=based_fg2"], "unknown sweep based_fg2; did you mean based_fig2?"),
    (["sweep=based_fig2,state_scaling"], "sweep=based_fig2,state_scaling names several sweeps: give one a"),
    ([WINDOW, "seed=range(0)"], "seed=range(0) has no values: give one, or leave the key out."),
    ([GRIDS + "[{mixer: []}]"], "mixer in grid 1 has no values: give one, or leave the key out."),
    ([GRIDS + "[{mixer: based, seed: 'range(0)'}]"], "seed in grid 1 has no values"),
    ([GRIDS + "[{mixer: []}]", WINDOW], "mixer in grid 1 has no values"),
    (["hydra.sweeper.grid=[{mixer: based}]"], "unknown key hydra.sweeper.grid; did you mean"),
    ([GRIDS + "3"], "grids (=3) must be a list of {key: values}."),
    ([WINDOW, "hydra.sweeper.exclude=[{mixer: sliding_window}]"], "exclude removes all 1 cells of the sweep"),
    ([WINDOW, "seed=1,2", "seed=3"], "seed is given twice, the second time as seed=3: give all its values"),
    (
        [GRIDS + "[{mixer: based, zip: {seed: [1, 2], lr: [0.1]}}]"],
        "zip in grid 1 needs keys with equally many values: seed has 2, lr has 1.",
    ),
    (
        [GRIDS + "[{mixer: based, seed: [1, 2], zip: {seed: [1, 2], lr: [0.1, 0.2]}}]"],
        "seed stands twice in grid 1: an axis is swept or zipped, and once.",
    ),
    (
        [GRIDS + "[{mixer: based, zip: {seed: [1, 2], lr: [0.1, 0.2]}}]", "seed=1,2,3"],
        "seed is zipped with lr: give 2 values, or one, or all of these keys.",
    ),
    (
        [WINDOW, "hydra.sweeper.exclude=[{sed: 1}]", "seed=1,2"],
        "unknown axis sed; did you mean seed? [exclude]",
    ),
]


@pytest.mark.parametrize(("words", "says"), BAD, ids=[" ".join(words) for words, _ in BAD])
def test_a_sweep_is_refused_in_one_line(zoo: Zoo, tmp_path: Path, words: list[str], says: str):
    code, out, err = zoo("-m", *SMALL, *words)
    assert says in err
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert list(tmp_path.iterdir()) == []


def test_a_key_may_be_given_again_where_it_says_the_same(zoo: Zoo):
    code, _, err = zoo("-m", *SMALL, WINDOW, "lr=0", "seed=1,2", "seed=1,2")
    assert code == 2 and err.startswith("lr (=0) must be positive and finite. [2 cells;")


@pytest.mark.parametrize(
    ("grid", "says"),
    [
        ("{mixer: based, dmodel: [16, 32]}", "unknown key dmodel; did you mean d_model?"),
        ("{mixer: based", "bad.yaml, line 4: expected"),
    ],
)
def test_a_sweep_file_is_refused_in_one_line(
    zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grid: str, says: str
):
    (tmp_path / "bad.yaml").write_text(f"# @package hydra.sweeper\ngrids:\n  - {grid}\n")
    monkeypatch.setattr(sweeps, "SWEEPS_PATH", f"zoo-sweeps://{tmp_path}")
    code, out, err = zoo("-m", *SMALL, "sweep=bad")
    assert says in err
    assert (code, out, len(err.splitlines())) == (2, "", 1)
