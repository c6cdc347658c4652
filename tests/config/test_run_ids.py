"""Run ids stay as they are, so that the same words name the same cell; every yaml in conf/ makes a cell."""

import importlib.util
import json
import zipfile
from pathlib import Path

import pytest

from tests.command import ROOT
from tests.registry import compose, composer
from zoo.config.paths import CONF
from zoo.launch.process_pool import PRELOADED
from zoo.training.check import check

ARCHIVES = sorted((ROOT / "docs" / "results").glob("mini_*.zip"))

# of cells that no archive holds: words -> run id, as they were before the packages of zoo/ had their names
KNOWN = {
    "": "based-48f8c78868c5",
    "mixer=mamba2 model=mamba2_hybrid d_model=32": "mamba2-b74d6d058b17",
    "mixer=attention model.layers=[mixer] mixer.position=rope lr=1e-3": "attention-7000f1211b5c",
    "mixer=se_attn task=mqar_based optim=zoology block=zoology seed=123": "se_attn-c68ded7e785d",
    "mixer=gla block=transformer_pp n_layers=4": "gla-925921007ce7",
    "mixer=rwkv7 task=mqar_single trainer.precision=bf16-head": "rwkv7-8258c7844c1f",
}


def published(archive: Path) -> dict[str, list[str]]:
    """Map run ids to words, for a cell of every mixer in the archive."""
    cells: dict[str, list[str]] = {}
    with zipfile.ZipFile(archive) as file:
        for name in sorted(n for n in file.namelist() if n.endswith("env.json")):
            run_id = name.split("/")[-2]
            if run_id.rpartition("-")[0] not in {known.rpartition("-")[0] for known in cells}:
                cells[run_id] = json.loads(file.read(name))["overrides"]
    return cells


@pytest.mark.records
@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.stem)
def test_published_words_name_the_published_cells(archive: Path) -> None:
    compose = composer()
    cells = published(archive)
    assert {run_id: compose.cell(words).run_id for run_id, words in cells.items()} == {r: r for r in cells}


@pytest.mark.parametrize("words", KNOWN)
def test_known_words_name_known_cells(words: str) -> None:
    assert composer().cell(words.split()).run_id == KNOWN[words]


def test_modules_that_workers_preload_can_be_imported() -> None:
    """The fork server swallows an ImportError: workers would only start slower."""
    for module in PRELOADED:
        __import__(module)


pytestmark = pytest.mark.xdist_group("every mixer composed")  # with one composer
OTHERS = ("evaluation", "hydra")  # no parts of a cell; tests/evaluation/ asks each question
GROUPS = sorted(path.name for path in CONF.iterdir() if path.is_dir() and path.name not in OTHERS)
CHOICES = [f"{group}={path.stem}" for group in GROUPS for path in sorted((CONF / group).glob("*.yaml"))]
NEEDS = {"logger=tensorboard": "tensorboard", "logger=wandb": "wandb", "logger=mlflow": "mlflow"}


@pytest.mark.parametrize("choice", CHOICES)
def test_every_choice_composes_and_passes_the_checks(choice: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WANDB_MODE", "offline")  # no account here
    cell = compose([choice])
    package = NEEDS.get(choice)
    if package and importlib.util.find_spec(package) is None:
        with pytest.raises(ValueError, match=r"pip install"):
            check(cell)
    else:
        check(cell)
