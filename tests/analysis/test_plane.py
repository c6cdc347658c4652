"""Recall against state tracking, of the mixers that have every task with every seed."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest

from analysis.figures import plane
from tests.analysis import study
from tests.analysis.study import FakeStudy

TASKS = ("mqar", "noisy_ar", "cum_parity", "word_problem")
SCORES = {  # mixer -> the seeds' accuracies on each task
    "based": [(0.8, 1.0), (0.6, 0.6), (0.5, 0.5), (0.1, 0.3)],
    "deltanet": [(0.9, 0.9), (0.9, 0.7), (1.0, 1.0), (0.9, 0.7)],
    "mamba": [(0.9, 0.9), (0.9, 0.7), (1.0, 1.0), (0.9,)],
    "gla": [(0.9, 0.9), (0.9, 0.7), (1.0, 1.0)],
}


def records(*tasks: str) -> list[dict[str, Any]]:
    return [
        cell
        for mixer, scores in SCORES.items()
        for task, seeds in zip(TASKS, scores, strict=False)
        if task in tasks
        for cell in study.seeds(mixer, seeds, task=task)
    ]


def test_a_mixer_is_where_its_two_means_are_and_an_unfinished_one_is_left_out(tmp_path: Path) -> None:
    picture = study.drawn("plane", tmp_path / "block", records(*TASKS))
    rows = picture.rows.set_index("mixer")
    assert list(rows.index) == ["based", "deltanet"]
    assert rows.loc["based", ["recall", "accuracy"]].tolist() == pytest.approx([0.75, 0.35])
    assert rows.loc["deltanet", ["recall", "accuracy"]].tolist() == pytest.approx([0.85, 0.9])
    assert rows.loc["based", ["recall_low", "recall_high"]].tolist() == pytest.approx([0.7, 0.8])
    assert "Recall: mqar, noisy_ar. Tracking: cum_parity, word_problem" in picture.sentences[0]
    plt.close(picture.figure)


def test_tasks_of_one_kind_make_no_plane() -> None:
    with pytest.raises(ValueError, match=r"tracking \(cum_parity.*sweep=atlas_block"):
        FakeStudy(study.table(records("mqar", "noisy_ar"))).drawn(plane)
