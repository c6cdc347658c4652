"""Write metrics.csv, the curves of a cell, with a row for each number."""

import csv
import io
from dataclasses import asdict
from pathlib import Path

from zoo.results import atomic
from zoo.results.outcome import Score

HEADER = ("step", "split", "slice", "metric", "value")
Row = tuple[int, str, str, str, float]


def score_rows(step: int, split: str, scores: dict[str, Score]) -> list[Row]:
    """Return a row for each slice and each number of its score."""
    return [(step, split, name, *each) for name, score in scores.items() for each in asdict(score).items()]


def train_rows(step: int, losses: list[tuple[str, int, float]]) -> list[Row]:
    """Turn (slice, answers, mean loss) of some batches into rows of metrics.csv."""
    rows: list[Row] = []
    for name in dict.fromkeys(name for name, _, _ in losses):
        answers = sum(n for other, n, _ in losses if other == name)
        mean = sum(n * loss for other, n, loss in losses if other == name) / answers
        rows += [(step, "train", name, "loss", mean), (step, "train", name, "answers", answers)]
    return rows


def write_csv(path: Path, rows: list[Row]) -> None:
    """Write all rows to `path`, in one move."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows((*row[:-1], repr(row[-1])) for row in rows)
    atomic.write(path, text.getvalue())
