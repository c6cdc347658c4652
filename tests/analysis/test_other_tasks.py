"""Tasks without key-value pairs: their chance, axis of load and slices of words, from record to picture."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.text import Text

from analysis.drawing.style import SCREEN
from analysis.figures.gallery import Study, draw
from analysis.records import cells
from analysis.statistics import __main__, bounds, learning_rate
from analysis.statistics.chance import ONE_OF_N, OTHERWISE, chance, chance_in_words
from analysis.statistics.points import points
from tests.analysis import study
from zoo.results import load_groups

OTHER = {"_target_": "my_tasks.Copying", "vocab_size": 64}
GROUPS = [("distance", 8), ("kind", "kept"), ("kind", "updated"), ("depth", 0), ("depth", 3)]
Slices = list[dict[str, Any]]
WORDS: Slices = [{"seq_len": 64, "subtask": "single_1"}, {"seq_len": 64, "subtask": "multi"}]
TOKENS: Slices = [{"seq_len": 64, "num_tokens": 4}, {"seq_len": 128, "num_tokens": 8}]


def other(mixer: str, accuracy: float, slices: Slices, axis: str | None = None, **of: Any) -> dict[str, Any]:
    """Return a record of a task in which every guess is right half of the time."""
    record = study.record(mixer, accuracy, slices=study.SEVEN[: len(slices)], task="copying", **of)
    for place, entry in enumerate(record["slices"]):
        entry |= {"slice": slices[place % len(slices)], "chance": 0.5}
    record["groups"] = [
        {"split": "test", "slice": ",".join(f"{k}={v}" for k, v in each.items()), "group": group}
        | {"value": value, "answers": 100, "right": round(100 * accuracy)}
        for each in slices
        for group, value in GROUPS
    ]
    return record | {"task_settings": OTHER, "load_axis": axis}


def test_files_of_other_text_are_another_load():
    made = [{"corpus": "files", "sha256": digest * 64} for digest in "ab"]
    of_text = [other("m", 0.7, TOKENS) | {"made_from": x, "run_id": f"m-{i}"} for i, x in enumerate(made)]
    loads = cells.named(study.table(of_text))["load"]
    assert [name.partition(",")[0] for name in loads.unique()] == [
        "corpus=files aaaaaaaa",
        "corpus=files bbbbbbbb",
    ]


def test_a_task_without_pairs_has_its_chance():
    table = study.table([other("based", 0.51, WORDS), other("mamba", 0.9, WORDS, state=2000)])
    names = cells.slices(table, "test")
    assert chance(table, names) == 0.5 and chance_in_words(table, names) == OTHERWISE
    load = cells.identify(table)
    rows = points(load, learning_rate.choose(load), split="test", slices=names).set_index("mixer")
    assert rows["chance"].tolist() == [0.5, 0.5] and set(rows["guess"]) == {OTHERWISE}
    assert rows["on_frontier"].to_dict() == {"based": False, "mamba": True}


def test_chance_is_a_guess_among_pairs_or_that_of_the_task_if_higher():
    table = study.table([study.record("based", 0.5)])
    (name,) = cells.slices(table, "test")
    assert (chance(table, [name]), chance_in_words(table, [name])) == (1 / 8, ONE_OF_N)
    assert chance(table, [name, "seq_len=16,num_kv_pairs=2"]) == (1 / 8 + 1 / 2) / 2
    assert np.isnan([chance(table, names) for names in (["length=8"], [name, "length=8"])]).all()
    assert chance(table.assign(chance=0.01), [name]) == 1 / 8
    easier = table.assign(chance=0.3)
    assert (chance(easier, [name]), chance_in_words(easier, [name])) == (0.3, OTHERWISE)


def test_only_mqar_has_bounds():
    table = study.table([study.record("based", 1.0, state=1)])
    assert len(bounds.violations(table)) and bounds.loads(table)
    for name, bounded in (("zoo.tasks.mqar.MQAR", True), ("zoo.tasks.mqar_update.Update", False)):
        assert bool(bounds.loads(table.assign(**{bounds.TASK_CLASS: name}))) == bounded


@pytest.mark.parametrize(("slices", "axis"), [(WORDS, None), (TOKENS, "depth")])
def test_a_task_without_an_axis_of_load_is_refused(slices: Slices, axis: str | None):
    table = study.table([other("based", 0.9, slices, axis)])
    with pytest.raises(ValueError, match="Task copying has no axis of load"):
        cells.load_axis(table)
    assert "capacity" not in __main__.statistics(table)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = [
        other(m, a, TOKENS, "num_tokens", seed=s) for m, a in (("based", 0.7), ("mamba", 0.9)) for s in (0, 1)
    ]
    return study.write(tmp_path_factory.mktemp("other") / "study", records)


def test_groups_are_read_by_their_name(home: Path):
    assert set(load_groups(home)["group"]) == {"distance", "kind", "depth"}
    assert __main__.main([str(home)]) == 0
    tables = __main__.kinds(load_groups(home), Study(home).table)
    assert set(tables["distances"]["distance"]) == {8}
    assert set(tables["groups"]["value"]) == {"kept", "updated", 0, 3}


@pytest.mark.parametrize(
    ("name", "axis"), [("frontier", ""), ("heat_map", "seq_len above num_tokens"), ("loads", "Num tokens")]
)
def test_pictures_show_the_axis_and_the_chance_of_the_task(home: Path, name: str, axis: str):
    picture = draw(name, Study(home), SCREEN)
    words = [text.get_text() for text in picture.figure.findobj(Text) if isinstance(text, Text)]
    shown = " ".join(words).replace("\n", " ")
    assert "chance" in shown and "1/n" not in shown and axis in shown


def test_a_picture_of_pairs_refuses_a_task_without_them(home: Path):
    with pytest.raises(ValueError, match="state_scaling counts pairs, and these rows have num_tokens"):
        draw("state_scaling", Study(home), SCREEN)
