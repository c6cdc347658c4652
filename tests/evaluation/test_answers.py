"""The table of answers has the same places for every model, and the answers that its score counts."""

from pathlib import Path

import pandas as pd
import pytest

import zoo
from zoo.evaluation.answers import Answers
from zoo.evaluation.trained import Trained
from zoo.results.table import slice_name

WHOLE = Answers(split="test", rows=100, places=1000)


def test_all_places_together_are_the_score_of_the_record(held: Trained) -> None:
    table = WHOLE.table(held)
    scores = {slice_name(each["slice"]): each["accuracy"] for each in held.record["slices"][-2:]}
    assert table.groupby("slice")["right"].mean().to_dict() == pytest.approx(scores)
    assert (table["right"] == (table["target"] == table["answer"])).all()


def test_a_row_holds_key_and_value_at_place_and_source(held: Trained, trained: dict[str, Path]) -> None:
    table = WHOLE.table(held)
    for _, row in table.groupby(["slice", "example"]):
        tokens = [int(token) for token in row["tokens"].iloc[0].split()]
        assert set(row["tokens"].iloc[1:]) <= {""}
        columns = row[["place", "source", "distance", "target"]].astype(int)
        for place, source, distance, target in columns.to_numpy():
            assert place - source == distance and tokens[source + 1] == target
            assert tokens[source] == tokens[place]  # the key, which the value follows
    other = WHOLE.table(zoo.load(trained["shared"]))
    shared = ["slice", "example", "place", "source", "distance", "target", "tokens"]
    pd.testing.assert_frame_equal(table[shared], other[shared])


def test_few_places_are_shared_out_over_slices_and_rows(held: Trained) -> None:
    few = Answers(split="test", rows=3, places=12).table(held)
    assert few.groupby("slice")["place"].count().tolist() == [6, 6]
    assert few.groupby(["slice", "example"])["place"].count().tolist() == [2] * 6
    one = Answers(split="test", rows=3, places=1).table(held)
    assert len(one) == 2 and (one["tokens"] != "").all()
