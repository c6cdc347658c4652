"""The page of the atlas: sizes, seeds that differ, points at chance, and what other archives know."""

from pathlib import Path

import pytest

from analysis import atlas
from tests.analysis import study
from tests.analysis.conftest import Run
from zoo.results.archive import archive

SLICES = [(16, 4), (32, 8)]  # chance is 1/4 and 1/8


@pytest.fixture
def archives(tmp_path: Path) -> Path:
    scores = {"based": {500: (0.6, 0.7), 1600: (0.2, 0.9)}, "mamba": {1600: (0.18, 0.2), 9000: (0.95, 0.95)}}
    records = [
        cell
        for mixer, sizes in scores.items()
        for state, seeds in sizes.items()
        for cell in study.seeds(mixer, seeds, state=state, feature_dim=state, slices=SLICES)
    ]
    (tmp_path / "archives").mkdir()
    archive(study.write(tmp_path / "r", records), tmp_path / "archives" / "atlas_frontier.zip")
    return tmp_path / "archives"


def test_a_mixer_stands_at_its_sizes(archives: Path, run: Run) -> None:
    lines = run(atlas.main, archives)[0].splitlines()
    assert "| Based | linear | 0.650* (500) | 0.20/0.90 (1,600) |  |  |" in lines
    assert "| Mamba | linear |  | - (1,600) |  | 0.950* (9,000) |" in lines
    assert "### Based" in lines and "### Mamba" in lines
    [row] = [line for line in lines if line.startswith("| feature_dim=500 |")]
    assert row == "| feature_dim=500 | 500 | 0.65 | 0.65 | 0.650* |"
    assert any("2 of the zoo's mixers" in " ".join(lines[i : i + 2]) for i in range(len(lines)))


def test_an_archive_that_is_not_there_is_named(tmp_path: Path, run: Run) -> None:
    run.refused("atlas_frontier.zip", atlas.main, tmp_path)


def test_a_complete_block_is_ranked(archives: Path, run: Run) -> None:
    tasks = ("mqar", "copy", "induction", "noisy_ar")
    scores = {"attention": 0.99, "based": 0.9, "mamba": 0.7, "gla": 0.5}
    records = [
        cell
        for mixer, score in scores.items()
        for number, task in enumerate(tasks)
        for cell in study.seeds(mixer, [score - 0.01 * number], task=task, state=1600)
    ]
    archive(study.write(archives.parent / "b", records), archives / "atlas_block.zip")
    lines = run(atlas.main, archives)[0].splitlines()
    assert (
        "## 4 tasks, one size" in lines
        and "| mixer | copy | induction | mqar | noisy_ar | mean rank |" in lines
    )
    assert "| Attention | 0.98 | 0.97 | 0.99 | 0.96 |  |" in lines
    assert "| Based | 0.89 | 0.88 | 0.90 | 0.87 | 1.0 |" in lines
    assert "| Gla | 0.49 | 0.48 | 0.50 | 0.47 | 3.0 |" in lines
    assert "chi squared is 8.0," in " ".join(lines) and "by Holm: none." in " ".join(lines)
    assert "| copy | 1.00 (1.00 to 1.00) | 1.00 (1.00 to 1.00) | 1.00 (1.00 to 1.00) |" in lines
    assert "| induction |  | 1.00 (1.00 to 1.00) | 1.00 (1.00 to 1.00) |" in lines
