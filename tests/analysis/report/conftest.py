"""Made-up results, their page, and one Chromium for all tests that open it."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.pareto import pareto
from analysis.report.page import report
from tests.analysis import fake
from tests.analysis.report import pages
from tests.analysis.report.chromium import SEEDS, launched, opened
from tests.analysis.report.pages import HOSTILE, Page, saved
from zoo.results import store
from zoo.results import table as results_table


@pytest.fixture(scope="package")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake.write(tmp_path_factory.mktemp("small"), seeds=2)


@pytest.fixture(scope="package")
def parsed(small: Path) -> Page:
    return Page(report([small])[0])


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="package")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seeds, learning rates, divergences; one seed is missing, one cell failed."""
    home = fake.write(tmp_path_factory.mktemp("results"), seeds=SEEDS)
    shutil.rmtree(home / "based-0020")  # a seed of what would be its point's best learning rate
    (home / "gla-failed").mkdir()
    (home / "gla-failed" / "error.txt").write_text(f"ValueError: {HOSTILE}\n")
    for folder in store.folders(home):
        if store.is_done(folder):
            mixer, layers = folder.name.split("-")[0], "model.layers=[base_conv,mixer]"
            words = [f"mixer={mixer}", layers, f"results={home}"]
            fake.change(folder, overrides=words, git_revision="f" * 40, git_clean=True)
            learned(folder)
    return home


def learned(folder: Path) -> None:
    """Write a loss that falls by its learning rate, and a config of a mapping, a list and a long text."""
    record = json.loads((folder / "result.json").read_text())
    with (folder / "metrics.csv").open("a") as file:
        for step in (100, 600):
            for row in (f"loss,{1 / (step * record['lr'])}", "answers,64"):
                file.write(f'{step},train,"seq_len=32,num_kv_pairs=4",{row}\n')
    settings = "".join(f"  {key}: {value}\n" for key, value in record["mixer_settings"].items())
    loads = f"task:\n  train:\n  - seq_len: {record['d_model']}\n    pairs: 4\n  note: one\n    two\n"
    (folder / "config.yaml").write_text(f"mixer:\n{settings}{loads}lr: {record['lr']}\nblock: none\n")


@pytest.fixture(scope="package")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pages.write(tmp_path_factory.mktemp("evaluated"))


@pytest.fixture(scope="package")
def written(home: Path) -> Path:
    return saved(home / "report.html", home)


@pytest.fixture(scope="package")
def shared(browser: Any, written: Path) -> Iterator[Any]:
    """The page of `home`, loaded once: that takes longest."""
    with opened(browser, written) as page:
        yield page


@pytest.fixture
def page(shared: Any) -> Any:
    """The same page, reset to its first view."""
    shared.evaluate("setUp(), chosenAnew()")
    for home, first in (("axis", "resident"), ("split", "test")):
        shared.select_option(f"#{home}", first)
    shared.evaluate("() => ((byId('cells-section').open = false), (tables.points.sort = null), render())")
    shared.evaluate("scrollTo(0, 0)")
    return shared


@pytest.fixture(scope="package")
def whole(home: Path) -> pd.DataFrame:
    return pareto(results_table.load(home)).points
