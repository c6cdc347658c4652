"""The picture of speeds: the median of the seeds, a line a batch, accuracy at the longest texts."""

import pandas as pd
import pytest

from analysis.figures import speed as picture
from tests.analysis import study


@pytest.fixture
def asked() -> study.Asked:
    """Two seeds of one mixer, and one whose decoding is not exact."""
    records = [study.record("fast", 0.5, seed=seed, state=10) for seed in (0, 1)]
    records.append(study.record("blurred", 0.75, state=99))
    rows = [
        {"run_id": record["run_id"], "mixer": "?", "what": what, "seq_len": length, "batch": batch}
        | {"tokens_per_second": 100.0 * batch * (1 + record["seed"]), "state_bytes": 4 * batch * length}
        for record in records
        for what in ("prefill", "decode")
        for length in (64, 256)
        for batch in (1, 8)
        if record["mixer"] == "fast" or what == "prefill"
    ]
    return study.Asked(study.table(records), pd.DataFrame(rows), "speed")


def test_speed_against_length_and_accuracy_against_speed(asked: study.Asked) -> None:
    found = asked.drawn(picture)
    at = found.rows.set_index(["mixer", "what", "seq_len", "batch"])
    assert at.loc[
        ("fast", "decode", 64, 8), ["slowest", "tokens_per_second", "fastest", "cells"]
    ].tolist() == [
        800,
        1200,
        1600,
        2,
    ]
    prefill, decode, state, by_prefill, by_decode, by_state = found.figure.axes
    assert [len(ax.lines) for ax in (prefill, decode, state)] == [4, 2, 4]  # a point and batch each
    assert {line.get_linestyle() for line in decode.lines} == {"-", "--"}
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in by_decode.lines] == [(1200, 0.5)]
    assert sorted(line.get_ydata()[0] for line in by_prefill.lines) == [0.5, 0.75]
    assert {line.get_xdata()[0] for line in by_state.lines} == {4 * 8 * 256}
    assert "1 and 8 sequences at once" in found.sentences[0] and "at 256 tokens" in found.sentences[0]


def test_one_answer_a_cell(asked: study.Asked) -> None:
    asked.found = pd.concat([asked.found] * 2)
    with pytest.raises(ValueError, match="asked more than once"):
        asked.drawn(picture)


def test_stacks_of_a_mixer_look_apart() -> None:
    cells = [study.record("fast", 0.5, d_model=width) for width in (32, 64)]
    layers = dict(zip([cell["run_id"] for cell in cells], ("Fast", "Fast, Attention"), strict=True))
    rows = [
        {"run_id": run, "mixer": "?", "what": what, "seq_len": 64, "batch": 8}
        | {"tokens_per_second": 100.0, "state_bytes": 4}
        for run in layers
        for what in ("prefill", "decode")
    ]
    asked = study.Asked(study.table(cells), pd.DataFrame(rows), "speed", layers=layers)
    found = asked.drawn(picture)
    assert set(found.rows["series"]) == {"Fast (Fast)", "Fast (Fast, Attention)"}
    assert len({line.get_marker() for line in found.figure.axes[4].lines}) == 2
