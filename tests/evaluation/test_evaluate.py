"""`python -m zoo.evaluate` evaluates trained cells once and stores the results with their records."""

import json
import os
import re
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from tests.analysis.fake import change
from tests.command import ROOT
from tests.evaluation.conftest import Ask
from tests.training.tiny import segment
from zoo import evaluate
from zoo.evaluation.base import Evaluation
from zoo.evaluation.trained import Trained, cell_of, record_of
from zoo.results import archive, evaluations, load, load_evaluations
from zoo.results.home import WEIGHTS
from zoo.tasks.build import task_of

YAMLS = str(Path(__file__).parent / "own")
SCORES = "{one} evaluation=scores"
OTHER = f"task.test=[{segment(20, 4, 7)}]"
COMPARED = ["run_id", "split", "slice", "accuracy", "row_accuracy", "exact_rows", "loss", "answers", "rows"]


class Longest(Evaluation):
    """A user's evaluation: `times` the longest test sequence."""

    def __init__(self, *, times: int) -> None:
        self.times = times

    def table(self, trained: Trained) -> pd.DataFrame:
        lengths = [segment.seq_len for segment in trained.task.segments("test")]
        return pd.DataFrame({"longest": [self.times * max(lengths)], "note": ["=1+1\x1b[2J"]})


@pytest.fixture
def home(trained: dict[str, Path], tmp_path: Path) -> Path:
    """Return a results folder of two cells and one that is not finished."""
    for name in ("attention", "mixed"):
        shutil.copytree(trained[name], tmp_path / "r" / trained[name].name)
    shutil.copytree(trained["wide"], tmp_path / "r" / "unfinished-0")
    (tmp_path / "r" / "unfinished-0" / "result.json").unlink()
    return tmp_path / "r"


def test_results_are_stored_with_the_records_and_not_computed_twice(home: Path, ask: Ask) -> None:
    printed, errors = ask(home, "evaluation=scores")
    assert printed.endswith("scores: 2 answered, 0 were there already, 0 failed\n")
    assert errors == f"passed over: {home / 'unfinished-0'} is not finished\n"
    answers = {path: path.read_bytes() for path in home.glob("*/evaluations/*")}
    record = load(home)[lambda table: table.split == "test"]
    first = load_evaluations(home, "scores")
    pd.testing.assert_frame_equal(first[COMPARED], record[COMPARED].reset_index(drop=True), check_exact=True)
    assert set(first["evaluation.split"]) == {"test"} and "task.test" not in first

    head, *rows, last = ask(home, "evaluation=scores")[0].splitlines()
    assert last == "scores: 0 answered, 2 were there already, 0 failed"
    for form, is_row in (("--markdown", "| "), ("--latex", r" \\")):
        lines = [line for line in ask(home, "evaluation=scores", form)[0].splitlines() if is_row in line]
        assert len(lines) == len(rows) + (2 if form == "--markdown" else 1) and "accuracy" in lines[0]
    assert head.split()[:3] == ["run_id", "split", "slice"] and len(rows) == len(first)
    assert {path: path.read_bytes() for path in home.glob("*/evaluations/*")} == answers

    ask(home, "evaluation=scores", OTHER, "task.filler=blank")
    both = load_evaluations(home, "scores")
    other = both[both["task.filler"] == "blank"]
    assert len(both) == len(first) + 2 and set(other.slice) == {"seq_len=20,num_kv_pairs=4"}
    assert set(other.rows) == {7} and set(other.chance) == {1 / 12}


def test_a_word_may_be_longer_than_any_file_name(one: Path, ask: Ask) -> None:
    several = ",".join([segment(20, 4, 7)] * 6)
    assert len(several) > 255
    ask(one, "evaluation=scores", f"task.test=[{several}]")


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_link_or_file_as_evaluations_is_refused(kind: str, one: Path, tmp_path: Path, ask: Ask) -> None:
    """Through a link the results would be stored where no reader looks."""
    if kind == "link":
        (tmp_path / "elsewhere").mkdir()
        (one / "evaluations").symlink_to(tmp_path / "elsewhere")
    else:
        (one / "evaluations").touch()
    assert "evaluations is a link or file: move it away" in ask(one, "evaluation=scores", code=2)[1]
    assert kind == "file" or not [*(tmp_path / "elsewhere").iterdir()]


@pytest.mark.parametrize("folder", ["/proc", "/sys/kernel"])
def test_a_folder_that_cannot_be_written_is_refused_before_the_work(
    folder: str, one: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    """Even root cannot write to these folders, although os.access allows it."""
    monkeypatch.setattr(evaluations, "place", lambda *_: Path(folder) / "evaluations" / "scores-0.csv")
    monkeypatch.setattr(evaluate, "_table", lambda *_: pytest.fail("it began before the folder was checked"))
    _, errors = ask(one, "evaluation=scores", code=2)
    assert errors.startswith(f"{folder}/evaluations cannot be written (") and errors.count("\n") == 1


def test_a_damaged_record_is_left_out_and_the_others_are_evaluated(home: Path, ask: Ask) -> None:
    (home / "unfinished-0" / "result.json").write_text("{\x1b")
    printed, errors = ask(home, "evaluation=scores", code=3)
    assert printed.endswith("scores: 2 answered, 0 were there already, 0 failed\n")
    assert errors.startswith(f"left out: {home / 'unfinished-0' / 'result.json'}") and errors.count("\n") == 1
    _, alone = ask(home / "unfinished-0", "evaluation=scores", code=2)
    assert alone.startswith(str(home / "unfinished-0" / "result.json"))


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        *((text, "mine.yaml") for text in ("", "- 1", "a: [", "a: !!python/none")),
        (None, "mine.yaml is no file."),  # a pipe, which is not waited for
        ("_target_: a_module_of_mine.Mine", "PYTHONPATH=FOLDER before the command"),
        ("_target_: a_module_of_mine.Mine", "No module named 'a_module_of_mine'"),
    ],
)
def test_bad_yamls_are_refused(yaml: str | None, message: str, one: Path, tmp_path: Path, ask: Ask) -> None:
    (tmp_path / "evaluation").mkdir()
    path = tmp_path / "evaluation" / "mine.yaml"
    os.mkfifo(path) if yaml is None else path.write_text(yaml)
    _, errors = ask(one, "evaluation=mine", "--config-dir", tmp_path, code=2)
    assert message in errors and errors.count("\n") == 1


def test_an_archive_holds_the_results(home: Path, tmp_path: Path, ask: Ask) -> None:
    for name in ("scores", "distance"):
        ask(home, f"evaluation={name}")
    (one, *_) = sorted(home.glob("*/evaluations"))
    (one / "notes.txt").write_text("mine")
    assert archive.main([str(home), "--out", str(tmp_path / "all.zip")]) == 0
    for name in ("scores", "distance"):
        table = load_evaluations(tmp_path / "all.zip", name)
        pd.testing.assert_frame_equal(table, load_evaluations(home, name), check_exact=True)
    names = zipfile.ZipFile(tmp_path / "all.zip").namelist()
    assert len(names) == 2 * (4 + 2) and not [name for name in names if "notes" in name]
    one.rename(tmp_path / "elsewhere")
    one.symlink_to(tmp_path / "elsewhere")
    assert archive.main([str(home), "--out", str(tmp_path / "less.zip")]) == 0
    assert len(zipfile.ZipFile(tmp_path / "less.zip").namelist()) == len(names) - 2


def test_a_damaged_answer_is_refused_before_the_work(home: Path, ask: Ask) -> None:
    ask(home, "evaluation=scores")
    kept, damaged = sorted(home.glob("*/evaluations/*"))
    kept.unlink()
    damaged.write_text("")
    _, errors = ask(home, "evaluation=scores", code=2)
    assert str(damaged) in errors and errors.endswith("): delete it, and ask again.\n")
    assert not kept.exists()


def test_results_of_other_weights_are_not_read(one: Path, ask: Ask) -> None:
    ask(one, "evaluation=distance")
    assert set(load_evaluations(one.parent, "distance").chance) == {1 / 12}
    [answer] = one.glob("evaluations/*")
    (answer.parent / "distance-000000000000.csv").write_text("# {}\nx\n1\n")
    damaged = r"distance-0+.csv is no table of an evaluation \(the record lacks 'schema'\)"
    with pytest.warns(UserWarning, match=damaged):
        load_evaluations(one.parent, "distance")
    (answer.parent / "distance-000000000000.csv").unlink()
    change(one, weights="0" * 64)
    with pytest.raises(ValueError, match=r"holds no answers to distance: run `python -m zoo.evaluate"):
        load_evaluations(one.parent, "distance")


def test_another_task_by_name_has_the_cells_seed(one: Path, ask: Ask) -> None:
    words = ["task=mqar_single", "task.vocab_size=24", "task.test_examples=5", "task.seq_len=16"]
    ask(one, "evaluation=scores", *words, "task.num_kv_pairs=2", "evaluation.split=test")
    [answer] = one.glob("evaluations/*")
    settings = json.loads(answer.read_text().partition("\n")[0][2:])["settings"]
    assert settings["task"]["seed"] == 0 and list(pd.read_csv(answer, skiprows=1).rows) == [5]


def test_an_archive_and_nested_cells_are_evaluated(home: Path, one: Path, tmp_path: Path, ask: Ask) -> None:
    """Only the cells that the folder beside an archive lacks are unpacked into it."""
    packed, outer = home.with_suffix(".zip"), tmp_path / "outer"
    archive.archive(home, packed, weights=True)
    archive.archive(home, tmp_path / "bare.zip")
    missing, present = (next(home.glob(f"{name}-*")) for name in ("attention", "hyena"))
    shutil.rmtree(missing)
    (present / "env.json").write_text("mine")
    shutil.copytree(one, outer / "deep" / "r" / one.name)
    shutil.copytree(one, home / "not_in_the_archive")
    printed, errors = ask(packed, outer, "evaluation=scores")
    shutil.rmtree(home / "not_in_the_archive")
    assert printed.endswith("scores: 3 answered, 0 were there already, 0 failed\n")
    assert f"{packed} is unpacked: the answers lie in {home}\n" in errors
    assert (present / "env.json").read_text() == "mine"
    assert set(load_evaluations(home, "scores").run_id) == {missing.name, present.name}
    _, errors = ask(tmp_path / "bare.zip", "evaluation=scores", code=2)
    assert "bare.zip holds no weights: make it with" in errors
    assert not (tmp_path / "bare").exists()


def test_the_code_in_the_documentation_runs(home: Path, ask: Ask) -> None:
    page = (ROOT / "docs" / "evaluation.md").read_text()
    load_it, read_it, define_it = re.findall(r"```python\n(.*?)```", page, re.S)
    ask(home, "evaluation=distance")
    [run] = home.glob("attention-*")
    names = {"Evaluation": Evaluation, "Trained": Trained, "pd": pd}
    exec(load_it.replace("results/based-48f8c78868c5", str(run)).replace("[:, :16]", "[:, :8]"), names)
    exec(read_it.replace("results/demo", str(home)), names)
    assert names["answers"].state_resident.notna().all()
    exec(define_it, names)
    assert names["Entropy"](rows=4).table(names["run"]).nats[0] > 0


def test_speed_includes_decoding_where_it_is_exact(home: Path, ask: Ask) -> None:
    ask(home, "evaluation=speed", "evaluation.seq_len=[8,16]", "evaluation.batch=[1,2]")
    table = load_evaluations(home, "speed")
    assert (table.tokens_per_second > 0).all() and set(table.seq_len) == {8, 16}
    sizes = table.query("mixer == 'attention'").set_index(["what", "seq_len", "batch"]).state_bytes
    assert sizes["decode", 16, 2] == 2 * sizes["prefill", 16, 1] > sizes["decode", 8, 2]
    assert dict(table.groupby("mixer").what.apply(set))["attention"] == {"prefill", "decode"}


def test_a_users_evaluation_runs(one: Path, ask: Ask) -> None:
    ask(one, "evaluation=longest", "evaluation.times=3", "--config-dir", YAMLS)
    [row] = load_evaluations(one.parent, "longest").itertuples()
    assert row.longest == 48 and row.note == r"=1+1\x1b[2J"


@pytest.mark.parametrize("table", [{"longest": 3}, pd.DataFrame(), pd.DataFrame({"run_id": ["mine"]})])
def test_what_is_no_table_of_answers_is_not_written(
    table: object, one: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    monkeypatch.setattr(Longest, "table", lambda *_: table)
    _, errors = ask(one, "evaluation=longest", "--config-dir", YAMLS, code=1)
    assert "table() must return a DataFrame with columns, none of them run_id or mixer." in errors
    assert not list(one.glob("evaluations/*"))


def test_a_cell_without_weights_does_not_stop_the_others(home: Path, ask: Ask) -> None:
    next(home.glob("hyena-*")).joinpath(WEIGHTS).unlink()
    printed, errors = ask(home, "evaluation=scores")
    assert "scores: 1 answered" in printed and "passed over: 1 of 2 runs have no weights, such as" in errors


def test_rows_of_a_question_are_not_limited_by_the_cells_own_limit(one: Path) -> None:
    cell = cell_of(one, record_of(one))
    limited = replace(cell, config=cell.config | {"max_examples": 2})
    more = cell.task_settings | {"test": [{"seq_len": 20, "num_kv_pairs": 4, "num_examples": 7}]}
    for task, rows in ((cell.task_settings | {"filler": "blank"}, 2), (more, 7)):
        assert task_of(limited.with_task(task)).segments("test")[0].num_examples == rows


def test_a_cell_that_fails_does_not_stop_the_others(home: Path, ask: Ask) -> None:
    far = f"task.test=[{segment(4096, 2, 1)}]"  # longer than hyena's filters
    printed, errors = ask(home, "evaluation=scores", far, code=1)
    assert printed.endswith("scores: 1 answered, 0 were there already, 1 failed\n")
    [line] = [line for line in errors.splitlines() if line.startswith("failed: ")]
    assert "hyena" in line and "must cover the sequences: raise it to 4096" in line
    grid = ["evaluation.loads=[8]", "evaluation.distances=[8]"]
    _, errors = ask(home, "evaluation=load_distance", *grid, code=1)
    first, more = [line for line in errors.splitlines() if line.startswith("failed: ")]
    assert more == f"failed: 1 more{first[first.index(': no distance leaves room') :]}"
    config = next(home.glob("hyena-*")) / "config.yaml"
    for text, why in (("a: [b", "(expected ',' or ']', but"), (None, "missing")):
        config.unlink() if text is None else config.write_text(text)
        printed, errors = ask(home, "evaluation=answers", code=1)
        assert printed.endswith(" 1 failed\n") and f"failed: {config} is " in errors and why in errors
    assert len(load_evaluations(home, "answers").run_id.unique()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("{one}", "evaluation=NAME must be given: one of answers, ar_hits, distance, "),
        ("evaluation=scores", "name the runs: a results folder, or folders in it."),
        ("{one} evaluation=score", "unknown evaluation score; did you mean scores? (there are: "),
        ("{one} evaluation=longst --config-dir {yamls}", "unknown evaluation longst; did you mean longest?"),
        (
            "{one} evaluation=extrapolation evaluation.doublings=100",
            "evaluation.doublings (=100) must be at most 20.",
        ),
        (
            "{one} --config-dir nope evaluation=scores",
            "--config-dir (=nope) must be a folder with yamls of your",
        ),
        (f"{SCORES} evaluation.spilt=test", "did you mean evaluation.split?"),
        (f"{SCORES} evaluation.batch_size=0", "evaluation.batch_size (=0) must be at least 1"),
        (f"{SCORES} evaluation._target_=os.getcwd", "unknown key evaluation._target_"),
        (f"{SCORES} evaluation=speed,scores", "names several values: ask for one at a time."),
        (f"{SCORES} +task.x=1", "+task.x=1 must be KEY=VALUE."),
        (f"{SCORES} d_model=8", "d_model=8 is no part of a question"),
        (f"{SCORES} task.vocab_size=30", "task.vocab_size (=30) must be at most 24, the tokens"),
        (f"{SCORES} task=mqar_stacked", "task (=StackedMQAR) must have inputs as"),
        (SCORES + " task.test=[{seq_len:9}]", ": a segment of task.test must be {seq_len, "),
        (SCORES + " task.test=[{", "cannot read task.test=[{"),
        ("{one}/config.yaml evaluation=scores", "is a file, and no whole archive"),
        ("{one}/none evaluation=scores", "does not exist: give the one zoo.run wrote to."),
        ("{bare} evaluation=scores", "1 of 1 runs have no weights, such as "),
        ("{empty} evaluation=scores", "holds no trained cell: run `python -m zoo.run` first."),
    ],
)
def test_a_mistake_is_refused(words: str, message: str, one: Path, tmp_path: Path, ask: Ask) -> None:
    (tmp_path / "empty").mkdir()
    bare = tmp_path / one.name
    shutil.copytree(one, bare).joinpath(WEIGHTS).unlink()
    names = {"one": one, "bare": bare, "empty": tmp_path / "empty", "yamls": YAMLS}
    given = [word if "[" in word else word.format(**names) for word in words.split()]
    printed, errors = ask(*given, code=2)
    assert message in errors and errors.count("\n") == 1 and not printed
    assert not list(tmp_path.glob("**/evaluations"))
