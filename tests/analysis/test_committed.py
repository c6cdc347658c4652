"""Committed sweeps, their results, and the pictures made of these agree."""

from functools import cache

import pytest

from analysis.drawing.style import SCREEN
from analysis.figures import gallery
from analysis.statistics import bounds
from tests.analysis.study import FIGURES, batch, is_committed
from tests.command import ROOT
from tests.registry import composer
from zoo.results.table import load

pytestmark = pytest.mark.records
HELD = sorted((ROOT / "docs" / "results").glob("*.zip"))
GROWING = ("based_fig2_cpu",)  # sweeps that still run, and lack cells
ARCHIVES = [path for path in HELD if path.stem not in GROWING]
PICTURES = [(path.stem, name) for path in HELD for name in gallery.pictures_of(path.stem)]


@cache
def study(sweep: str) -> gallery.Study:
    return gallery.Study(ROOT / "docs" / "results" / f"{sweep}.zip")


def test_every_study_has_results_or_is_marked_as_not_run() -> None:
    texts = {path.stem: path.read_text() for path in (ROOT / "sweeps").glob("*.yaml")}
    ours = {name for name in texts if name.startswith(("mini_", "atlas_")) and name not in GROWING}
    assert {name for name in ours if "not run yet" not in texts[name]} == {path.stem for path in ARCHIVES}


@pytest.mark.parametrize("sweep", [path.stem for path in HELD])
def test_the_results_are_those_of_the_committed_sweep(sweep: str) -> None:
    """Results hold the cells of the file, those they start from, and no other; three seeds of each point.

    A sweep that still runs lacks some.  No score is above what is possible.
    """
    table, growing = load(study(sweep).home), sweep in GROWING
    known = {cell.run_id for words in batch(sweep) for cell in composer().cell(words).lineage}
    assert set(table["run_id"]) <= known
    assert growing or set(table["run_id"]) == known
    assert growing or min(table.groupby("point")["seed"].nunique()) >= 3
    assert bounds.violations(table).empty


@pytest.mark.parametrize(("sweep", "name"), PICTURES)
def test_the_numbers_of_a_picture_are_those_of_the_results(sweep: str, name: str) -> None:
    is_committed(gallery.draw(name, study(sweep), SCREEN), f"{sweep}/{name}")


def test_no_picture_is_obsolete_or_a_duplicate() -> None:
    pictures = sorted(path for path in FIGURES.glob("*/*.png") if path.parent.name != "report")  # screenshots
    made = {path.parent.name + "/" + path.stem for path in pictures}
    assert made == {f"{sweep}/{name}" for sweep, name in PICTURES}
    assert not list(FIGURES.rglob("*.pdf"))  # built, not committed
    assert len({path.read_bytes() for path in pictures}) == len(pictures)
