"""Cells that started from others: their columns, and pictures that name their recipes."""

from pathlib import Path
from typing import Any

import pytest

from analysis.drawing.style import SCREEN
from analysis.figures.gallery import Study, draw
from analysis.records.cells import named
from analysis.records.where import where
from tests.analysis import study
from zoo.results.table import load

RECIPES = (("full", None, 0.9), ("lora", 4, 0.5), ("lora", 16, 0.6), ("hylora", 4, 0.8))


def adapted(recipe: str, rank: int | None, accuracy: float, seed: int) -> dict[str, Any]:
    record = study.record("attention", accuracy, seed=seed)
    adaptation = {"recipe": recipe, "trained": 40 * (rank or 99), "share": 0.1, "rank": rank}
    adaptation |= {"alpha": rank and 2.0 * rank, "targets": ["query"] if rank else [], "train": []}
    record |= {"start": f"based-{seed}", "adaptation": adaptation | {"rope_scale": 1.0}}
    return record | {key: f"{record[key]}-{recipe}-{rank}" for key in ("run_id", "point")}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    records = [adapted(*recipe, seed) for recipe in RECIPES for seed in range(2)]
    starts = [study.record("based", 0.99, seed=seed, task="copy") for seed in range(2)]
    return study.write(tmp_path / "results", records + starts)


def test_records_are_filtered_by_start_and_recipe(home: Path) -> None:
    table = load(home)
    assert set(where(table, "adaptation.recipe == 'lora' and adaptation.rank > 4")["accuracy"]) == {0.6}
    assert set(where(table, "start == 'based-1'")["seed"]) == {1}
    assert table.loc[table["mixer"] == "based", ["start", "adaptation.share"]].isna().all(axis=None)
    assert "start" not in study.table([study.record("based", 0.5)])


def test_a_picture_names_each_recipe_once(home: Path) -> None:
    shown = draw("variants", Study(home), SCREEN).rows["variant"].tolist()
    of = ["recipe=full", "recipe=hylora rank=4", "recipe=lora rank=16", "recipe=lora rank=4"]
    assert shown == [f"Attention, {words}" for words in of]
    assert set(Study(home, "mixer == 'based'").table["task"]) == {"copy"}


def test_the_outcome_of_a_recipe_is_no_setting(home: Path) -> None:
    rows = named(where(load(home), "adaptation.recipe == 'lora'"))
    knobs = {f"adaptation.alpha={alpha} adaptation.rank={rank}" for alpha, rank in ((8, 4), (32, 16))}
    assert set(rows["knobs"]) == knobs
