"""python -m analysis.pareto and .expected: what they write, print and refuse."""

import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from analysis import expected, output, pareto
from analysis.drawing import figure
from analysis.drawing.own_points import read as read_points
from analysis.figures import __main__ as figures
from analysis.records.readable import as_csv, readable
from analysis.statistics import __main__ as statistics
from tests.analysis import fake, study
from tests.analysis.figure_checks import legend_texts
from tests.command import Run, written

EXPECTED = """# made up
mixer,d_model,mixer.feature_dim,slice,accuracy,tolerance
attention,64,,mean,1.0,0.01
based,64,8,"seq_len=32,num_kv_pairs=4",{score},0.02
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake.write(tmp_path_factory.mktemp("results"), seeds=2)


def test_several_folders_are_read_together_also_from_one_above_them(results: Path, tmp_path: Path) -> None:
    """The second copy has other scores for Based, which is therefore named with its folder."""
    shutil.copytree(results, tmp_path / "outer" / "one", ignore=shutil.ignore_patterns("figures"))
    shutil.copytree(tmp_path / "outer" / "one", tmp_path / "outer" / "two")
    for path in (tmp_path / "outer" / "two").glob("based-*/result.json"):
        path.write_text(re.sub(r'"accuracy": [0-9.]+', '"accuracy": 0.25', path.read_text()))
    tables = []
    for words in ([tmp_path / "outer"], [tmp_path / "outer" / name for name in ("one", "two")]):
        table, wrong, notes, _ = readable(*words)
        assert not wrong and "cells are in two of them and count once" in notes[0]
        tables.append(table)
    assert tables[0].equals(tables[1])
    labels = set(tables[0]["label"])
    assert {"Based", "Based (two)"} <= labels and "Attention (two)" not in labels


def test_tables_are_printed_as_markdown_and_latex(results: Path, tmp_path: Path, run: Run) -> None:
    printed, _ = run(statistics.main, results, "--out", tmp_path, "--markdown")
    assert re.search(r"^\| Based \| 64 \| feature_dim=8 \| [0-9,]+ \|", printed, re.MULTILINE)
    assert re.search(r"^\| series \| .*\n\| --- \| --: \| --- \| --: ", printed, re.MULTILINE)
    printed, _ = run(statistics.main, results, "--out", tmp_path, "--latex")
    assert r"\toprule" in printed
    assert re.search(r"^Based & 64 & feature\\_dim=8 & [0-9,]+ &", printed, re.MULTILINE)


def test_pareto_prints_a_table_and_writes_pictures_and_csv(results: Path, run: Run) -> None:
    printed, _ = run(pareto.main, results)
    names = ["pareto.png", "pareto.pdf", "pareto_slices.png", "pareto_slices.pdf", "pareto.csv"]
    assert all((results / "figures" / name).stat().st_size > 1000 for name in names)
    assert [line.split("/")[-1] for line in printed.splitlines() if line.startswith("wrote")] == names
    (line,) = [line for line in printed.splitlines() if line.strip().startswith("Hyena")]
    assert "16,600" in line and "0.001 < lowest" in line
    (line,) = [line for line in printed.splitlines() if "d_state=16" in line]
    assert "1 diverged" in line and "> highest" in line
    assert "at chance: below 0.117 + 0.02 (chance, 1/n: one of the row's n values)" in printed
    (line,) = [line for line in printed.splitlines() if "selection=chunk" in line]
    assert "not causal" in line
    assert "mean of 4 slices" in printed and "min to max" in printed


def test_the_file_names_hold_the_slice_the_axis_and_the_split(results: Path, tmp_path: Path) -> None:
    name = "seq_len=64,num_kv_pairs=8"
    options = ["--slice", name, "--split", "valid", "--axis", "touched", "--where", "mixer == 'se_attn'"]
    assert pareto.main([str(results), "--out", str(tmp_path), *options]) == 0
    stem = f"pareto_{name}_touched_valid"
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{stem}.csv", f"{stem}.pdf", f"{stem}.png"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--slice", "seq_len=65"], "No slice 'seq_len=65'.*choose among seq_len=32,num_kv_pairs=4; seq"),
        (["--where", "accuracy > 0.5"], "accuracy"),
        (["--where", "d_model > 999"], "leaves no cell of 102"),
        (["--where", "mixer == 'se_attn'", "--axis", "paper"], "No cell has a number for --axis paper"),
    ],
)
def test_bad_options_are_one_line(results: Path, run: Run, options: list[str], message: str) -> None:
    run.refused(message, pareto.main, results, *options)


def test_a_bad_folder_is_one_line(results: Path, tmp_path: Path, run: Run) -> None:
    run.refused("no finished cell", pareto.main, tmp_path)
    run.refused("does not exist", pareto.main, tmp_path / "nowhere")
    message = "file.* cannot be written .*: name another with --out"
    run.refused(message, pareto.main, results, "--out", written(tmp_path / "file", ""))


HOSTILE = ('=HYPERLINK("http://x")', "$\\frac{$", "[/red]", "+1+1", "@SUM(A1)")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Mixers whose labels are a formula of a spreadsheet, broken mathtext, markup of the terminal."""
    records = [study.record(f"m{i}", 0.5) | {"label": label} for i, label in enumerate(HOSTILE)]
    return study.write(tmp_path_factory.mktemp("hostile"), records)


def test_labels_are_text_in_tables_csv_and_pictures(hostile: Path, tmp_path: Path, run: Run) -> None:
    printed, _ = run(pareto.main, hostile, "--out", tmp_path)
    assert all(label in printed for label in HOSTILE)
    text = (tmp_path / "pareto.csv").read_text()
    assert not re.findall(r'(?:^|,)"?[=@+]', text, re.MULTILINE) and "'+1+1" in text
    run(statistics.main, hostile, "--out", tmp_path)
    run(figures.main, "heat_map", hostile, "--out", tmp_path)


@pytest.mark.parametrize(
    ("cell", "as_text"),
    [
        ("=1+1", "'=1+1"), ("@x", "'@x"), ("+a", "'+a"), ("-a", "'-a"), ("\t=1", "'\t=1"),
        ("-1", "-1"), ("+1e-3", "+1e-3"), ("-", "-"), ("a=1", "a=1"), (-1.5, "-1.5"),
    ],
)  # fmt: skip
def test_a_csv_cell_is_never_a_formula(cell: object, as_text: str) -> None:
    assert as_csv(pd.DataFrame({"=a": [cell]})) == f"'=a\n{as_text}\n"


def test_nothing_is_written_through_a_link(hostile: Path, tmp_path: Path, run: Run) -> None:
    home, other = shutil.copytree(hostile, tmp_path / "home"), tmp_path / "other"
    other.mkdir()
    for name, command in (("figures", pareto), ("figures", figures), ("statistics", statistics)):
        (home / name).symlink_to(other)
        message = rf"{name} is a link to .*other: remove it, or name a folder with --out"
        run.refused(message, command.main, *["heat_map"] * (command is figures), home)
        (home / name).unlink()
    (home / "figures").mkdir()
    (tmp_path / "precious").write_text("mine")
    (home / "figures" / "pareto.csv").symlink_to(tmp_path / "precious")
    run(pareto.main, home)
    assert (tmp_path / "precious").read_text() == "mine" and not list(other.iterdir())
    assert not (home / "figures" / "pareto.csv").is_symlink()


def test_pictures_of_an_archive_do_not_replace_those_of_a_folder_of_its_name(tmp_path: Path) -> None:
    written(tmp_path / "runs.zip", "")
    assert output.folder(tmp_path / "runs.zip", "figures", None) == tmp_path / "runs" / "figures"
    written(tmp_path / "runs" / "based-1" / "result.json", "{}")
    assert output.folder(tmp_path / "runs.zip", "figures", None) == tmp_path / "runs_zip" / "figures"
    assert output.folder(tmp_path / "runs", "figures", None) == tmp_path / "runs" / "figures"


@pytest.mark.parametrize(("score", "strict", "code"), [(0.99, True, 0), (0.5, True, 1), (0.5, False, 0)])
def test_accuracies_are_compared_with_expected_ones(
    results: Path, tmp_path: Path, run: Run, score: float, strict: bool, code: int
) -> None:
    path = written(tmp_path / "expected.csv", EXPECTED.format(score=score))
    printed, _ = run(expected.main, results, path, "--where=d_model == 64", *["--strict"] * strict, code=code)
    assert f"{2 if score == 0.99 else 1} of 2 as expected" in printed
    assert ("OFF" in printed) == (score == 0.5)


def test_an_expected_point_that_was_not_run_is_missing(tmp_path: Path) -> None:
    text = "mixer,slice,accuracy,tolerance\nrwkv,mean,0.5,1.0\nattention,mean,1.0,0.01\n"
    checked = expected.check(fake.table(), expected.read(written(tmp_path / "expected.csv", text)))
    assert checked["mark"].tolist() == ["MISSING", "ok"]
    assert checked["got"].isna().tolist() == [True, False]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mixer,slice,accuracy,tolerance\nbased,mean,0.5,0.1\n", "5 points fit mixer=based: add columns"),
        ("mixer,slice,accuracy,tolerance\nattention,seq_len=1,0.5,0.1\n", "No slice 'seq_len=1'"),
        ("mixer,mixer.windw,slice,accuracy,tolerance\nattention,,mean,0.5,0.1\n", "No column 'mixer.windw'"),
        ("mixer,slice,accuracy\nattention,mean,0.5\n", "lacks the column 'tolerance'"),
    ],
)
def test_an_invalid_expectation_is_one_line(
    results: Path, tmp_path: Path, run: Run, text: str, message: str
) -> None:
    run.refused(message, expected.main, results, written(tmp_path / "expected.csv", text))


POINTS_FILE = """# points of a user
name,state_resident,accuracy,low,high
Mine,100,0.9,0.8,0.95
Mine,200,0.95,,
"Another, one",50,0.5,,
"""


def test_a_file_of_points_is_read(tmp_path: Path) -> None:
    rows = read_points(written(tmp_path / "mine.csv", POINTS_FILE), "resident")
    assert rows["name"].tolist() == ["Mine", "Mine", "Another, one"]
    assert rows["state_resident"].tolist() == [100, 200, 50]
    assert rows["low"].isna().tolist() == [False, True, True]
    bom = "\ufeffaccuracy,name,decode_tokens_per_second\r\n1,a,3e4\r\n"
    again = read_points(written(tmp_path / "mine.csv", bom), "throughput")
    assert again["decode_tokens_per_second"].tolist() == [3e4]


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("name,state,accuracy\na,1,1\n", ["lacks the column 'state_resident'"]),
        ("name,state_resident,accuracy,lo\na,1,1,1\n", ["unknown column lo; did you mean low?"]),
        ("name,state_resident,accuracy,low\na,1,1,1\n", ["one of low and high", "low stands alone"]),
        (
            "name,state_resident,accuracy\na,x,0.5\nb,1,90\n\n,1,1\nd,0,1\ne,1,nan\nf,inf,1\n",
            ["point 1: state_resident (=x) must be a number", "point 2: accuracy (=90) must lie between 0",
             "point 3: the name is empty", "point 4: state_resident (=0) must be a number above 0",
             "point 5: accuracy (=nan) must lie", "point 6: state_resident (=inf) must be a number"],
        ),
        (
            "name,state_resident,accuracy,low,high\na,1,.5,.6,.7\nb,1,.5,.4,\n",
            ["point 1: accuracy (=.5) must lie between low and high", "point 2: low stands alone"],
        ),
        ("name,state_resident,accuracy\n" + "".join(f"{i},1,1\n" for i in range(17)), ["17 names, and 16"]),
    ],
)  # fmt: skip
def test_every_mistake_in_a_file_of_points_is_a_line(tmp_path: Path, text: str, messages: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        read_points(written(tmp_path / "mine.csv", text), "resident")
    for line, wanted in zip(str(caught.value).splitlines(), messages, strict=True):
        assert wanted in line and "mine.csv" in line


def test_points_of_a_file_are_drawn_and_are_not_in_the_table_or_csv(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = study.write(tmp_path / "r", [study.record("based", 0.5, state=800)])
    drawn: list[figure.Figure] = []
    monkeypatch.setattr(pareto.page, "save", lambda picture, *_: drawn.append(picture) or [])
    printed, _ = run(pareto.main, home, "--points", written(tmp_path / "mine.csv", POINTS_FILE))
    assert "Mine" not in printed and "Mine" not in (home / "figures" / "pareto.csv").read_text()
    ax = drawn[0].axes[0]
    at = [tuple(c.get_offsets()[0]) for c in ax.collections if len(c.get_offsets()) == 1]
    assert {(100, 0.9), (200, 0.95), (50, 0.5)} <= set(at)
    names = legend_texts(drawn[0])
    assert names.count("Mine") == 1 and {"Another, one", "points of your own"} <= set(names)
    assert ax.get_xlim()[0] < 50
    wrong = written(tmp_path / "mine.csv", "name,accuracy\na,2\n")
    assert run(pareto.main, home, "--points", wrong, code=1)[1].count("error: ") == 1
    assert "There is no " in run(pareto.main, home, "--points", tmp_path / "none.csv", code=1)[1]


def test_points_of_a_file_and_several_loads_are_refused(tmp_path: Path, run: Run) -> None:
    records = [study.record("based", 0.5, slices=[(8 * n, n)]) for n in (4, 8)]
    home = study.write(tmp_path / "r", records)
    run.refused("beside 2 loads", pareto.main, home, "--points", written(tmp_path / "mine.csv", POINTS_FILE))
