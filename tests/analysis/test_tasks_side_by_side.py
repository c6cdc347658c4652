"""Pictures of several tasks, of RULER's groups, and of what lies beyond training, from made-up records."""

from typing import Any

import pandas as pd
import pytest

from analysis.figures import extrapolation, heat_map, ruler
from tests.analysis import study
from tests.analysis.study import FakeStudy
from zoo.tasks.ruler.questions import GROUPS, QUESTIONS


def of_task(task: str, mixer: str, accuracy: float, **of: Any) -> dict[str, Any]:
    record = study.record(mixer, accuracy, task=task, slices=[(64, 8), (128, 8)], **of)
    for entry in record["slices"]:
        entry |= {"slice": {"seq_len": entry["slice"]["seq_len"]}, "chance": 0.25}
    return record


@pytest.mark.parametrize("alike", [True, False], ids=["the_same_slices", "other_slices"])
def test_each_task_has_its_columns(alike: bool) -> None:
    scores = [("parity", "based", 0.5), ("majority", "based", 1.0), ("parity", "mamba", 0.75)]
    cells = [of_task(*each) for each in scores]
    for entry in [] if alike else cells[0]["slices"] + cells[2]["slices"]:
        entry["slice"]["seq_len"] += 32  # 96 and 160: between and after those of the other task
    ax = FakeStudy(study.table(cells)).drawn(heat_map).figure.axes[0]
    numbers = [text.get_text() for text in ax.texts if text.get_text().isdigit()]
    heads = [text.get_text() for text in ax.texts if text.get_text().startswith("task")]
    assert [head.split() for head in heads] == [["task", "majority"], ["task", "parity"]]
    assert numbers == ["100", "100", "50", "50", "75", "75", *["25"] * 4]  # Based, Mamba, chance


@pytest.mark.parametrize(("known", "name"), [(None, "chance, 1/n"), (0.5, "chance")])
def test_chance_is_named_for_all_tasks(known: float | None, name: str) -> None:
    """A guess among the row's eight values is the best in both tasks, or in the first alone."""
    cells = [study.record("based", 0.5, task=task) for task in ("mqar", "mqar_keys")]
    for entry in cells[1]["slices"]:
        entry["chance"] = known
    ax = FakeStudy(study.table(cells)).drawn(heat_map).figure.axes[0]
    assert ax.get_yticklabels()[-1].get_text() == name


def test_many_tasks_have_a_column_each_and_stars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heat_map, "COLUMNS", 5)
    scores = [("cum_parity", 0.5, 0.7), ("copy", 0.2, 0.6), ("mqar", 1.0, 1.0)]
    cells = [of_task(task, "gla", two[seed], seed=seed) for task, *two in scores for seed in (0, 1)]
    made = FakeStudy(study.table(cells)).drawn(heat_map)
    ax = made.figure.axes[0]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["mqar", "copy", "cum parity"]
    assert [text.get_text() for text in ax.texts] == ["100", "40*", "60", *["25"] * 3]
    assert made.sentences[0].endswith("Seeds differ by more than 0.3 at a star.") and len(made.rows) == 6


@pytest.mark.parametrize(
    ("load", "name"),
    [
        ("task=mad_recall, seq_len, noise_percent = 64, 0", "task=mad_recall"),
        ("seq_len, num_kv_pairs = 16, 2", ""),
        ("task=parity, mean of 2 slices: (seq_len) = (32), (64)", "task=parity"),
        ("group=Z2", "group=Z2"),
    ],
)
def test_a_load_is_named_without_its_slices(load: str, name: str) -> None:
    assert heat_map.TESTS.sub("", load) == name


def ruled(mixer: str, seed: int, score: dict[str, float]) -> dict[str, Any]:
    record = study.record(mixer, 0.5, seed=seed, task="ruler_lite", slices=[(256, i) for i in range(11)])
    for entry, name in zip(record["slices"], [*QUESTIONS, *QUESTIONS], strict=True):
        entry |= {"slice": {"seq_len": 256, "subtask": name}, "chance": 0.1, "accuracy": score.get(name, 0.0)}
        entry["exact_rows"] = score.get(name, 0.0) / 2
    record["groups"] = []
    return record


def test_ruler_is_reported_by_group_and_the_mean_of_eleven() -> None:
    cells = [ruled("based", seed, {"single_1": 0.9, "vt": 0.5 + 0.1 * seed}) for seed in (0, 1)]
    rows = FakeStudy(study.table(cells)).drawn(ruler).rows.set_index("group")
    assert list(rows.index) == list(GROUPS)
    assert rows["accuracy"].round(4).to_dict() == {
        "NIAH-S": 0.3, "NIAH-M": 0.0, "NIAH-M-QV": 0.0, "VT": 0.55, "CF-WE": 0.0,
        "Average": round(1.45 / 11, 4),
    }  # fmt: skip
    assert rows.loc["VT", ["low", "high", "exact_rows"]].tolist() == pytest.approx([0.5, 0.6, 0.275])
    assert rows["chance"].tolist() == pytest.approx([0.1] * 6)


def answers(run_id: str, held: int) -> list[dict[str, Any]]:
    """Return answers that are right up to `held` tokens and up to 8 pairs; 64 tokens were trained."""
    about = {"run_id": run_id, "refused": "", "rows": 10, "chance": 0.1}
    longer = [
        {"varied": "seq_len", "seq_len": 64 * 2**i, "num_kv_pairs": n, "accuracy": float(64 * 2**i <= held)}
        | {"holds_90": held, "holds_99": held}
        for n in (2, 4)
        for i in range(4)
    ]
    more = [
        {"varied": "num_kv_pairs", "seq_len": 64, "num_kv_pairs": n, "accuracy": float(n <= 8)}
        | {"holds_90": held, "holds_99": held}
        for pairs, held in (((2, 4), 4), ((4, 8, 16), 8))  # two starts, whose series share 4 pairs
        for n in pairs
    ]
    return [about | row for row in longer + more]


def test_longer_rows_and_more_pairs_have_panels_with_the_reach_of_each_seed() -> None:
    cells = [cell | {"load_axis": "num_kv_pairs"} for cell in study.seeds("based", (0.5, 0.5))]
    rows = [row for cell, held in zip(cells, (64, 256), strict=True) for row in answers(cell["run_id"], held)]
    picture = FakeStudy(study.table(cells), pd.DataFrame(rows), "extrapolation").drawn(extrapolation)
    assert picture.rows.set_index(["varied", "times"])["accuracy"].to_dict() == {
        ("seq_len", 1): 1.0, ("seq_len", 2): 0.5, ("seq_len", 4): 0.5, ("seq_len", 8): 0.0,
        ("num_kv_pairs", 1): 1.0, ("num_kv_pairs", 2): 1.0, ("num_kv_pairs", 4): 0.0,
    }  # fmt: skip
    reach = picture.tables["reach"].set_index("varied")["holds_90"].to_dict()
    assert reach == {"seq_len": "64 256", "num_kv_pairs": "8 8"}
    sentence = picture.sentences[0]
    assert "(64 tokens, at equal load)" in sentence and "(4, at equal length)" in sentence
    titles = {ax.get_title() for ax in picture.figure.axes}
    assert titles >= {"Based, longer rows", "Based, more key-value pairs"}
    # where the length follows from the load, there are no rows of varied seq_len
    rows = [row for row in rows if row["varied"] == "num_kv_pairs" and row["num_kv_pairs"] > 2]
    rows = [row | {"seq_len": 16 * row["num_kv_pairs"]} for row in rows]
    follows = FakeStudy(study.table(cells), pd.DataFrame(rows), "extrapolation").drawn(extrapolation)
    assert follows.rows.set_index("times")["accuracy"].to_dict() == {1: 1.0, 2: 1.0, 4: 0.0}
    assert "accuracy at larger loads than in training (4), in rows" in follows.sentences[0]
