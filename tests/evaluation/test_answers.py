"""Rows as they were asked: the same places for every model, and the answers that its score counts."""

from pathlib import Path

import pandas as pd
import pytest

import zoo
from zoo.evaluation.answers import Answers

WHOLE = Answers(split="test", rows=100, places=1000)


@pytest.fixture(scope="module")
def run(trained: dict[str, Path]) -> zoo.evaluation.trained.Trained:
    return zoo.load(trained["attention"])


def test_all_places_together_are_the_score_of_the_record(run: zoo.evaluation.trained.Trained) -> None:
    table = WHOLE.table(run)
    record = {
        ",".join(f"{k}={v}" for k, v in each["slice"].items()): each for each in run.record["slices"][-2:]
    }
    means = table.groupby("slice")["right"].mean()
    assert means.to_dict() == pytest.approx({name: each["accuracy"] for name, each in record.items()})
    assert (table["right"] == (table["target"] == table["answer"])).all()


def test_a_row_holds_what_is_asked_at_its_place_and_the_answer_at_its_source(
    run: zoo.evaluation.trained.Trained, trained: dict[str, Path]
) -> None:
    table = WHOLE.table(run)
    for _, row in table.groupby(["slice", "example"]):
        tokens = [int(token) for token in row["tokens"].iloc[0].split()]
        assert set(row["tokens"].iloc[1:]) <= {""}
        columns = row[["place", "source", "distance", "target"]].astype(int)
        for place, source, distance, target in columns.to_numpy():
            assert place - source == distance and tokens[source + 1] == target
            assert tokens[source] == tokens[place]  # the key, which the value follows
    other = WHOLE.table(zoo.load(trained["shared"]))
    asked = ["slice", "example", "place", "source", "distance", "target", "tokens"]
    pd.testing.assert_frame_equal(table[asked], other[asked])


def test_few_places_are_shared_out_over_slices_and_rows(run: zoo.evaluation.trained.Trained) -> None:
    few = Answers(split="test", rows=3, places=12).table(run)
    assert few.groupby("slice")["place"].count().tolist() == [6, 6]
    assert few.groupby(["slice", "example"])["place"].count().tolist() == [2] * 6
    one = Answers(split="test", rows=3, places=1).table(run)
    assert len(one) == 2 and (one["tokens"] != "").all()
