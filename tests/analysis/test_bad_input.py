"""Records that cannot be read and results without a common mean are named, and the rest is drawn."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from analysis import pareto as command
from analysis.pareto import pareto
from analysis.records import written
from analysis.statistics import __main__ as statistics
from analysis.statistics.chance import ONE_OF_N, OTHERWISE
from tests.analysis import fake
from tests.analysis.fake import change
from tests.analysis.figure_checks import legend_texts
from tests.command import Run, refusal

SMALL = "lr == 0.003 and (mixer == 'based' or mixer == 'mamba')"


def table(seeds: int = 3) -> pd.DataFrame:
    return fake.table(seeds).query(SMALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Finished cells: two seeds, one slice in each split."""
    cells = [r for r in fake.records(seeds=2) if r["lr"] == 3e-3 and r["mixer"] in ("based", "attention")]
    for record in cells:
        record["slices"] = [each for each in record["slices"] if each["slice"]["num_kv_pairs"] == 8]
    return fake.write(tmp_path / "results", of=cells)


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing is tested elsewhere."""
    monkeypatch.setattr(command, "_write", lambda *_: [])


def test_records_that_cannot_be_read_are_named_and_the_rest_is_shown(folder: Path, run: Run) -> None:
    half, old, lacking, foreign = cells = sorted(folder.iterdir())[:4]
    (half / "result.json").write_text('{"schema": 2, "run')
    change(old, schema=1)
    change(lacking, lambda record: record.pop("seed"))
    (foreign / "result.json").write_bytes(b"\xff\xfe\x00")
    printed, errors = run(command.main, folder, code=3)
    lines = [line for line in errors.splitlines() if line.startswith("error: not read: ")]
    reasons = "is not complete JSON", "has schema 1, this version reads schema", "lacks 'seed'", "codec can't"
    for cell, reason, line in zip(cells, reasons, lines, strict=True):
        assert reason in line and str(cell / "result.json") in line
    assert "Based" in printed


def test_a_folder_of_unreadable_records_is_refused(folder: Path, run: Run) -> None:
    for each in folder.iterdir():
        (each / "result.json").write_text("{}")
    run.refused("^error: No record in.*schema None", command.main, folder)


def test_a_copy_of_a_cell_counts_once_and_is_named(folder: Path, run: Run) -> None:
    first, copy = sorted(folder.iterdir())[0], folder / "a_copy"
    before, _ = run(command.main, folder)
    shutil.copytree(first, copy)
    note = f"note: {copy} is a copy of {first}, which counts; {copy} does not.\n"
    assert run(command.main, folder) == (before, note)
    shutil.rmtree(first)
    renamed = f"holds the record of {first.name} and counts as it: rename it to {first.name}."
    assert run(command.main, folder) == (before, f"note: {copy} {renamed}\n")


def test_the_record_in_its_own_folder_counts_where_copies_disagree(folder: Path, run: Run) -> None:
    first = sorted(folder.iterdir())[0]
    shutil.copytree(first, folder / "another")
    change(folder / "another", lambda record: record["slices"][0].update(accuracy=0.123))
    (line,) = run(command.main, folder)[1].splitlines()
    assert f"another has other numbers under the name of {first}, which counts; " in line


def test_a_repeated_seed_is_refused() -> None:
    rows = table()
    again = rows.loc[rows["seed"] == 1].assign(run_id=lambda frame: frame["run_id"] + "-again")
    with pytest.raises(ValueError, match=r"one point, learning rate and seed twice.*--where \"run_id != '"):
        pareto(pd.concat([rows, again], ignore_index=True))


def test_a_point_that_lacks_a_seed_is_drawn_and_noted() -> None:
    rows = table()
    one = (rows["mixer"] == "mamba") & (rows["mixer.d_state"] == 8) & (rows["seed"] == 2)
    shown = pareto(rows.loc[~one])
    (note,) = shown.notes
    assert note == "points with fewer seeds than others: Mamba d_model=64 d_state=8 has 2 of 3 seeds."
    assert len(shown.points) == 7 and pareto(rows).notes == []


def test_a_single_point_and_all_diverged() -> None:
    one = pareto(table(seeds=1).query("mixer == 'based' and d_model == 32 and `mixer.feature_dim` == 8"))
    assert len(one.points) == 1 and one.points["on_frontier"].all() and len(one.picture().axes) >= 1
    rows = table(seeds=1).assign(status="diverged", accuracy=float("nan"))
    none = pareto(rows)
    assert none.notes == ["every cell diverged: there is nothing but crosses to see."]
    assert not none.points["on_frontier"].any()
    counts = [text.get_text() for text in none.picture().axes[0].texts if "/" in text.get_text()]
    assert counts.count("1/1") == 7


def test_mixers_that_were_trained_in_different_ways_are_noted() -> None:
    rows = table(seeds=1)
    longer = rows.assign(
        **{"optim.max_epochs": rows["mixer"].map({"based": 64.0, "mamba": None}).fillna(8.0)}
    )
    [note] = pareto(longer.assign(**{"optim.weight_decay": rows["lr"], "optim.eval_batch_size": 7})).notes
    assert note == "not all mixers were trained alike: optim.max_epochs (8, 64). --where keeps one kind."
    assert pareto(longer.loc[rows["mixer"] != "based"]).notes == []


def test_loads_have_a_panel_each_and_no_common_mean() -> None:
    rows = table(seeds=1)
    longer = rows.assign(
        run_id=rows["run_id"] + "-long", point=rows["point"] + "-long", state_seq_len=256, accuracy=0.5,
        state_resident=rows["state_resident"] * 2, state_touched=rows["state_touched"] * 2,
    ).loc[rows["seq_len"] == 128]  # fmt: skip
    shown = pareto(pd.concat([rows, longer], ignore_index=True))
    assert [load.name for load in shown.loads] == [
        "mean of 4 slices: (seq_len, num_kv_pairs) = (32, 4), (64, 8), (64, 16), (128, 32)",
        "seq_len, num_kv_pairs = 128, 32",
    ]
    mean, alone = (load.points.set_index("knobs")["accuracy"] for load in shown.loads)
    assert set(alone) == {0.5, 0.0} and mean.equals(pareto(rows).points.set_index("knobs")["accuracy"])
    assert "the cells are of 2 kinds, one panel each" in shown.notes[0]
    picture = shown.picture()
    assert [ax.get_title().replace("\n", " ")[:8] for ax in picture.axes] == ["mean of ", "seq_len,"]
    assert "128 or 256 tokens" in picture.axes[0].get_xlabel().replace("\n", " ")


@pytest.mark.parametrize(
    ("column", "other", "named"),
    [
        ("task", "copying", "task=copying"),
        ("n_layers", 4, "n_layers=4"),
        ("task.filler", "random", "filler=random"),
    ],
)
def test_cells_of_another_task_or_depth_are_another_load(column: str, other: object, named: str) -> None:
    rows = table(seeds=1)
    changed = rows.assign(run_id=rows["run_id"] + "-b", point=rows["point"] + "-b", chance=0.3)
    changed = changed.assign(**{column: other})
    shown = pareto(pd.concat([rows, changed], ignore_index=True))
    assert len(shown.loads) == 2 and named in [load.name for load in shown.loads]
    assert [len(load.points) for load in shown.loads] == [7, 7]
    legend = " ".join(" ".join(legend_texts(shown.picture())).split())
    assert ONE_OF_N in legend and OTHERWISE in legend


def test_too_many_loads_for_a_page_are_refused() -> None:
    rows = table(seeds=1).query("mixer == 'mamba' and `mixer.d_state` == 8")
    many = [rows.assign(run_id=f"r{i}", point=f"p{i}", n_layers=i, state_seq_len=128) for i in range(1, 14)]
    with pytest.raises(ValueError, match=r"13 loads are too many for one page.*choose with --where"):
        pareto(pd.concat(many, ignore_index=True))


def test_a_point_above_what_is_possible_is_drawn_with_an_error(folder: Path, run: Run) -> None:
    wrong = next(each for each in sorted(folder.iterdir()) if each.name.startswith("attention"))
    change(wrong, state_resident=0, state_touched=0, state_aux_ints=0)
    printed, errors = run(command.main, folder, code=3)
    (line,) = errors.splitlines()
    assert line.startswith(f"error: {wrong.name} scores 1.000 on seq_len=64,num_kv_pairs=8, above 0.")
    assert "the most that is possible (no model: 32 bits a scalar)" in line and "Attention" in printed


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("claim,ahead,behind,slice\n", "has its columns and no row below them"),
        ("claim,ahead\n", "lacks the column 'behind'"),
        ("", "is no CSV"),
        ('a,"b\n1,2', "is no CSV"),
    ],
)
def test_an_invalid_csv_is_refused_in_one_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "claims.csv").write_text(content)
    with refusal(message):
        written.read(tmp_path / "claims.csv", ("claim", "ahead", "behind", "slice"))


@pytest.mark.parametrize("word", ["2", "-1", "nan", "0", "much"])
def test_an_invalid_recall_threshold_is_refused(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        statistics.main(["nowhere", f"--recall={word}"])
    assert f"--recall: (={word}) must be an accuracy" in capsys.readouterr().err
