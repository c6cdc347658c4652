"""zoo collect: the numbers of `zoo.results.load` and analysis, a row a record, in CSV and Parquet."""

import math
import sys
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from tests.analysis import fake
from tests.command import Run, written
from zoo.results import collect, store
from zoo.results import table as results_table

METRICS = ("accuracy", "row_accuracy", "exact_rows", "loss", "coverage", "answers", "rows")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake.write(tmp_path_factory.mktemp("collect") / "results", seeds=1)


def same(one: object, other: object) -> bool:
    """Return whether two values are equal, floats to their last digit but one, as pandas reads a CSV."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-14) or (math.isnan(one) and math.isnan(other))
    return (pd.isna(one) and pd.isna(other)) or one == other  # pyright: ignore


def test_the_csv_holds_what_load_returns(home: Path, tmp_path: Path, run: Run):
    out = run.done(collect.main, home, "--out", tmp_path / "all")
    frame = pd.read_csv(tmp_path / "all.csv", dtype={"precision": str}).set_index("run_id")
    long = results_table.load(home)
    assert f"{long.run_id.nunique()} records" in out and len(frame) == long.run_id.nunique()
    assert [*frame.columns][: len(results_table.KEYS) - 1] == list(results_table.KEYS[1:])
    settings = [column for column in long if column in results_table.KEYS[1:] or column.startswith("mixer.")]
    for _, row in long.iterrows():
        wide = frame.loc[row.run_id]
        name = f"{row.split}.{row['slice']}"
        assert all(same(wide[column], row[column]) for column in settings)
        assert all(same(wide[f"{name}.{metric}"], row[metric]) for metric in METRICS)


def test_several_folders_are_named_in_a_column(home: Path, tmp_path: Path, run: Run):
    outer = tmp_path / "outer"  # itself without cells
    fake.write(outer / "other", seeds=1)
    run.done(collect.main, home, outer, "--out", tmp_path / "both")
    for ending in ("", ".groups"):
        both = pd.read_csv(tmp_path / f"both{ending}.csv")
        assert both.columns[0] == "results" and set(both["results"]) == {str(home), str(outer / "other")}
        assert both["results"].value_counts().nunique() == 1
    assert duckdb.sql(f"SELECT results FROM '{tmp_path / 'both.parquet'}'").fetchall()[0] == (str(home),)


def test_the_parquet_file_holds_what_the_csv_holds(home: Path, tmp_path: Path, run: Run):
    run.done(collect.main, home, "--out", tmp_path / "all.csv")  # the ending is no part of the name
    text = pd.read_csv(tmp_path / "all.csv", dtype={"precision": str})
    table = duckdb.sql(f"SELECT * FROM '{tmp_path / 'all.parquet'}'")
    assert table.columns == [*text.columns]
    rows = table.fetchall()
    assert len(rows) == len(text)
    for row, (_, expected) in zip(rows, text.iterrows(), strict=True):
        assert all(same(a if a is not None else math.nan, b) for a, b in zip(row, expected, strict=True))
    wanted = {"lr": "DOUBLE", "seed": "BIGINT", "causal": "BOOLEAN", "mixer": "VARCHAR"}
    wanted |= dict.fromkeys(("state_paper", "diverged_step"), "DOUBLE")  # as load has them
    assert wanted.items() <= types_of(table).items()
    mean = 'avg("test.seq_len=32,num_kv_pairs=4.accuracy")'
    query = f"SELECT {mean} FROM '{tmp_path / 'all.parquet'}' WHERE \"mixer.window\" = 64 AND status = 'ok'"
    ((accuracy,),) = duckdb.sql(query).fetchall()
    long = results_table.load(home)
    chosen = long[
        (long["mixer.window"] == 64) & (long.split == "test") & (long.slice == "seq_len=32,num_kv_pairs=4")
    ]
    assert accuracy == pytest.approx(chosen.accuracy.mean())


def types_of(table: duckdb.DuckDBPyRelation) -> dict[str, str]:
    return dict(zip(table.columns, map(str, table.types), strict=True))


RECORD = fake.records(seeds=1)[0]


def put(home: Path, run_id: str, **changes: object) -> Path:
    return fake.put(home, RECORD | {"run_id": run_id} | changes)


def test_columns_that_only_later_records_have(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch):
    """Some values look like others: a word that is a number, a list, an empty word, a comma, a quote."""
    home = tmp_path / "o'clock" / "results"
    put(home, "a-1", mixer_settings={"x": 1, "word": "1e3"}, layers=["A", "B"], versions={"torch": "2.13"})
    put(home, "a-2", mixer_settings={"x": 0.5, "inner": {"y": True}}, label='=a "b", c\nd')
    put(home, "a-3", mixer_settings={"z": None, "word": "none"}, lr=1)
    out = run.done(collect.main, home)
    assert "3 records" in out and f"{home}/collected.csv and collected.parquet" in out
    monkeypatch.chdir(home.parent)
    columns = ("mixer.x", "mixer.word", "mixer.inner.y", "mixer.z", "layers", "versions.torch", "label", "lr")
    names = ", ".join(f'"{column}"' for column in columns)
    rows = duckdb.sql(f"SELECT {names} FROM 'results/collected.parquet' ORDER BY run_id").fetchall()
    label, lr = RECORD["label"], RECORD["lr"]
    assert rows == [
        (1.0, "1e3", None, None, '["A", "B"]', "2.13", label, lr),
        (0.5, None, True, None, None, None, """'=a "b", c\\nd""", lr),
        (None, "none", None, None, None, None, label, 1.0),
    ]
    assert [path.name for path in home.parent.iterdir()] == ["results"], "nothing beside the folder"
    names = {f"collected{kind}{end}" for kind in ("", ".groups") for end in (".csv", ".parquet")}
    assert {path.name for path in home.iterdir() if path.is_file()} == names


def test_scores_by_group_are_those_of_load_groups(home: Path, tmp_path: Path, run: Run):
    out = run.done(collect.main, home, "--out", tmp_path / "all")
    wanted = results_table.load_groups(home).astype({"value": str})
    assert len(wanted) > 50
    assert f"{len(wanted)} scores by group: {tmp_path}/all.groups.csv and all.groups.parquet" in out
    table = duckdb.sql(f"SELECT * FROM '{tmp_path / 'all.groups.parquet'}'")
    assert table.columns == [*wanted.columns]
    assert [*map(str, table.types)] == ["VARCHAR"] * 5 + ["BIGINT"] * 2
    assert sorted(table.fetchall()) == sorted(wanted.itertuples(index=False, name=None))
    text = pd.read_csv(tmp_path / "all.groups.csv", dtype={"value": str})
    assert sorted(text.itertuples(index=False, name=None)) == sorted(table.fetchall())


def test_a_column_has_the_type_of_the_schema_whatever_its_values(tmp_path: Path, run: Run):
    """Some columns are empty, and the numbers of others happen to be whole."""
    slices = [entry | {"loss": 1, "accuracy": 1} for entry in RECORD["slices"]]
    put(tmp_path / "few", "a-1", lr=1, wall_seconds=2, decode_missing=None, git_clean=None, slices=slices)
    run.done(collect.main, tmp_path / "few")
    table = duckdb.sql(f"SELECT * FROM '{tmp_path / 'few' / 'collected.parquet'}'")
    types = types_of(table)
    wanted = {"lr": "DOUBLE", "wall_seconds": "DOUBLE", "decode_missing": "VARCHAR", "git_clean": "BOOLEAN"}
    assert wanted.items() <= types.items()
    scores = {types[name] for name in table.columns if name.endswith((".loss", ".accuracy"))}
    assert scores == {"DOUBLE"}


def test_cells_without_a_record_are_counted(tmp_path: Path, run: Run):
    home = tmp_path / "results"
    put(home, "a-1")
    put(home, "a-2", status="diverged")
    for i in range(25):
        store.fail(home / f"b-{i:02d}", f"Traceback (most recent call last):\n  File x\nRuntimeError: {i}")
    for name in ("config.yaml", ".result.json.0a.part"):
        written(home / "c-1" / name, "{")
    (home / "figures").mkdir()
    lines = run.done(collect.main, home).splitlines()
    assert lines[0].startswith("2 records") and "scores by group" in lines[1]
    assert lines[2:4] == ["cells that failed, and have no row (25):", "  b-00: RuntimeError: 0"]
    assert lines[-2:] == ["  and 5 more", "not through (1): python -m zoo.status says which"]
    assert list(pd.read_csv(home / "collected.csv").status) == [RECORD["status"], "diverged"]
    assert {*results_table.load(home).run_id} == {"a-1", "a-2"}


def test_without_duckdb_only_a_csv_is_written(
    home: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    out = run.done(collect.main, home, "--out", tmp_path / "all")
    assert "(for a Parquet file too: pip install 'zoo-recall[query]')" in out.splitlines()[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.csv", "all.groups.csv"]


BAD = [
    (("{}/nowhere",), "results folder {}/nowhere does not exist"),
    (("{}/empty",), "results folder {}/empty holds no finished cell: run `python -m zoo.run` first."),
    (("{}/failed",), "results folder {}/failed holds no finished cell: 1 failed, 0 are not through"),
    (
        ("{}/old",),
        "No record in {}/old can be read; the first of 1: {}/old/b-1/result.json has schema 0, this",
    ),
    (("{}/half",), "No record in {}/half can be read; the first of 1: {}/half/b-1/result.json is not comp"),
    (("{}/old", "--out", "/proc/nowhere/x"), "cannot write /proc/nowhere"),
]


@pytest.mark.parametrize(("words", "message"), BAD, ids=[" ".join(words) for words, _ in BAD])
def test_unreadable_results_are_one_line_and_no_file(
    tmp_path: Path, run: Run, words: tuple[str, ...], message: str
):
    (tmp_path / "empty").mkdir()
    store.fail(tmp_path / "failed" / "a-1", "killed")
    (put(tmp_path / "old", "b-1") / "result.json").write_text('{"schema": 0}')
    path = put(tmp_path / "half", "b-1") / "result.json"
    path.write_text(path.read_text()[:-100])
    before = sorted(tmp_path.iterdir())
    (tmp_path / "old.csv").write_text("yesterday's")
    line = run.line(collect.main, *(word.format(tmp_path) for word in words))
    assert line.startswith(message.replace("{}", str(tmp_path)))
    assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / "old.csv"])
    assert (tmp_path / "old.csv").read_text() == "yesterday's"


def test_an_unreadable_record_is_named_and_the_others_are_rows(tmp_path: Path, run: Run):
    put(tmp_path / "some", "a-1")
    put(tmp_path / "some", "a-2", lr="fast")
    out, err = run(collect.main, tmp_path / "some", code=3)
    assert out.startswith("1 record")
    assert err.startswith(f'left out: {tmp_path}/some/a-2/result.json: lr (="fast") must be a number')
    assert err.count("\n") == 1
