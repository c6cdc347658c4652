"""`python -m zoo.evaluate`: a question to trained cells, its answers beside their records, asked once."""

import json
import os
import re
import shutil
import zipfile
from pathlib import Path

import pandas as pd
import pytest

from tests.analysis.fake import change
from tests.command import ROOT
from tests.evaluation.conftest import Ask
from tests.training.tiny import segment
from zoo import evaluate
from zoo.evaluation.base import Evaluation
from zoo.evaluation.trained import Trained
from zoo.results import archive, evaluations, load, load_evaluations
from zoo.results.home import WEIGHTS

OWN = str(Path(__file__).parent / "own")
SCORES = "{one} evaluation=scores"
OTHER = f"task.test=[{segment(20, 4, 7)}]"
COMPARED = ["run_id", "split", "slice", "accuracy", "row_accuracy", "exact_rows", "loss", "answers", "rows"]


class Longest(Evaluation):
    """Of one's own: `times` the longest test sequence."""

    def __init__(self, *, times: int) -> None:
        self.times = times

    def table(self, trained: Trained) -> pd.DataFrame:
        lengths = [segment.seq_len for segment in trained.task.segments("test")]
        return pd.DataFrame({"longest": [self.times * max(lengths)], "said": ["=1+1\x1b[2J"]})


@pytest.fixture
def home(trained: dict[str, Path], tmp_path: Path) -> Path:
    """Two cells of a results folder, and one that is not finished."""
    for name in ("attention", "mixed"):
        shutil.copytree(trained[name], tmp_path / "r" / trained[name].name)
    shutil.copytree(trained["wide"], tmp_path / "r" / "begun-0")
    (tmp_path / "r" / "begun-0" / "result.json").unlink()
    return tmp_path / "r"


def test_answers_lie_beside_the_records_and_are_asked_for_once(home: Path, ask: Ask) -> None:
    printed, errors = ask(home, "evaluation=scores")
    assert printed.endswith("scores: 2 answered, 0 were there already, 0 failed\n")
    assert errors == f"passed over: {home / 'begun-0'} is not finished\n"
    answers = {path: path.read_bytes() for path in home.glob("*/evaluations/*")}
    record = load(home)[lambda table: table.split == "test"]
    found = load_evaluations(home, "scores")
    pd.testing.assert_frame_equal(found[COMPARED], record[COMPARED].reset_index(drop=True), check_exact=True)
    assert set(found["evaluation.split"]) == {"test"} and "task.test" not in found

    head, *rows, last = ask(home, "evaluation=scores")[0].splitlines()
    assert last == "scores: 0 answered, 2 were there already, 0 failed"
    for form, is_row in (("--markdown", "| "), ("--latex", r" \\")):
        said = [line for line in ask(home, "evaluation=scores", form)[0].splitlines() if is_row in line]
        assert len(said) == len(rows) + (2 if form == "--markdown" else 1) and "accuracy" in said[0]
    assert head.split()[:3] == ["run_id", "split", "slice"] and len(rows) == len(found)
    assert {path: path.read_bytes() for path in home.glob("*/evaluations/*")} == answers

    ask(home, "evaluation=scores", OTHER, "task.filler=blank")
    both = load_evaluations(home, "scores")
    asked = both[both["task.filler"] == "blank"]
    assert len(both) == len(found) + 2 and set(asked.slice) == {"seq_len=20,num_kv_pairs=4"}
    assert set(asked.rows) == {7} and set(asked.chance) == {1 / 12}


def test_a_word_longer_than_any_file_name_is_a_word(one: Path, ask: Ask) -> None:
    several = ",".join([segment(20, 4, 7)] * 6)
    assert len(several) > 255
    ask(one, "evaluation=scores", f"task.test=[{several}]")


@pytest.mark.parametrize("kind", ["link", "file"])
def test_answers_go_nowhere_else(kind: str, one: Path, tmp_path: Path, ask: Ask) -> None:
    """A link would lead them where no reader looks."""
    if kind == "link":
        (tmp_path / "elsewhere").mkdir()
        (one / "evaluations").symlink_to(tmp_path / "elsewhere")
    else:
        (one / "evaluations").touch()
    assert "evaluations is a link or a file: move it away" in ask(one, "evaluation=scores", code=2)[1]
    assert kind == "file" or not [*(tmp_path / "elsewhere").iterdir()]


@pytest.mark.parametrize("folder", ["/proc", "/sys/kernel"])
def test_what_cannot_be_written_is_refused_before_the_work(
    folder: str, one: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    """Root may write to any folder but to these; os.access says that it could."""
    monkeypatch.setattr(evaluations, "place", lambda *_: Path(folder) / "evaluations" / "scores-0.csv")
    monkeypatch.setattr(evaluate, "_table", lambda *_: pytest.fail("asked before the place was looked at"))
    _, said = ask(one, "evaluation=scores", code=2)
    assert said.startswith(f"{folder}/evaluations cannot be written (") and said.count("\n") == 1


def test_a_damaged_record_is_left_out_and_the_others_are_asked(home: Path, ask: Ask) -> None:
    (home / "begun-0" / "result.json").write_text("{\x1b")
    printed, errors = ask(home, "evaluation=scores", code=3)
    assert printed.endswith("scores: 2 answered, 0 were there already, 0 failed\n")
    assert errors.startswith(f"left out: {home / 'begun-0' / 'result.json'}") and errors.count("\n") == 1
    _, alone = ask(home / "begun-0", "evaluation=scores", code=2)
    assert alone.startswith(str(home / "begun-0" / "result.json"))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        *((text, "mine.yaml") for text in ("", "- 1", "a: [", "a: !!python/none")),
        (None, "mine.yaml is no file."),  # a pipe, which is not waited for
        ("_target_: a_module_of_mine.Mine", "PYTHONPATH=FOLDER before the command"),
        ("_target_: a_module_of_mine.Mine", "No module named 'a_module_of_mine'"),
    ],
)
def test_a_yaml_of_no_evaluation_is_refused_in_one_line(
    content: str | None, says: str, one: Path, tmp_path: Path, ask: Ask
) -> None:
    (tmp_path / "evaluation").mkdir()
    path = tmp_path / "evaluation" / "mine.yaml"
    os.mkfifo(path) if content is None else path.write_text(content)
    _, said = ask(one, "evaluation=mine", "--config-dir", tmp_path, code=2)
    assert says in said and said.count("\n") == 1


def test_an_archive_carries_the_answers(home: Path, tmp_path: Path, ask: Ask) -> None:
    for name in ("scores", "distance"):
        ask(home, f"evaluation={name}")
    (one, *_) = sorted(home.glob("*/evaluations"))
    (one / "notes.txt").write_text("mine")
    assert archive.main([str(home), "--out", str(tmp_path / "all.zip")]) == 0
    for name in ("scores", "distance"):
        found = load_evaluations(tmp_path / "all.zip", name)
        pd.testing.assert_frame_equal(found, load_evaluations(home, name), check_exact=True)
    names = zipfile.ZipFile(tmp_path / "all.zip").namelist()
    assert len(names) == 2 * (4 + 2) and not [name for name in names if "notes" in name]
    one.rename(tmp_path / "elsewhere")
    one.symlink_to(tmp_path / "elsewhere")
    assert archive.main([str(home), "--out", str(tmp_path / "less.zip")]) == 0
    assert len(zipfile.ZipFile(tmp_path / "less.zip").namelist()) == len(names) - 2


def test_answers_of_weights_that_have_gone_are_not_read(one: Path, ask: Ask) -> None:
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


def test_an_archive_and_cells_below_a_folder_are_asked(
    home: Path, one: Path, tmp_path: Path, ask: Ask
) -> None:
    """Of an archive that lies beside its folder unpacked are only the cells that the folder lacks."""
    packed, outer = home.with_suffix(".zip"), tmp_path / "outer"
    archive.archive(home, packed, weights=True)
    archive.archive(home, tmp_path / "bare.zip")
    gone, kept = (next(home.glob(f"{name}-*")) for name in ("attention", "hyena"))
    shutil.rmtree(gone)
    (kept / "env.json").write_text("mine")
    shutil.copytree(one, outer / "deep" / "r" / one.name)
    printed, errors = ask(packed, outer, "evaluation=scores")
    assert printed.endswith("scores: 3 answered, 0 were there already, 0 failed\n")
    assert f"{packed} is unpacked: the answers lie in {home}\n" in errors
    assert (kept / "env.json").read_text() == "mine"
    assert set(load_evaluations(home, "scores").run_id) == {gone.name, kept.name}
    _, errors = ask(tmp_path / "bare.zip", "evaluation=scores", code=2)
    assert "bare.zip holds no weights: make it with" in errors
    assert not (tmp_path / "bare").exists()


def test_the_code_of_the_page_runs(home: Path, ask: Ask) -> None:
    page = (ROOT / "docs" / "evaluation.md").read_text()
    load_it, read_it, own = re.findall(r"```python\n(.*?)```", page, re.S)
    ask(home, "evaluation=distance")
    [run] = home.glob("attention-*")
    names = {"Evaluation": Evaluation, "Trained": Trained, "pd": pd}
    exec(load_it.replace("results/based-48f8c78868c5", str(run)).replace("[:, :16]", "[:, :8]"), names)
    exec(read_it.replace("results/demo", str(home)), names)
    assert names["answers"].state_resident.notna().all()
    exec(own, names)
    assert names["Entropy"](rows=4).table(names["run"]).nats[0] > 0


def test_speed_has_decoding_where_that_is_exact(home: Path, ask: Ask) -> None:
    ask(home, "evaluation=speed", "evaluation.seq_len=[8,16]", "evaluation.batch=[1,2]")
    found = load_evaluations(home, "speed")
    assert (found.tokens_per_second > 0).all() and set(found.seq_len) == {8, 16}
    kept = found.query("mixer == 'attention'").set_index(["what", "seq_len", "batch"]).state_bytes
    assert kept["decode", 16, 2] == 2 * kept["prefill", 16, 1] > kept["decode", 8, 2]
    assert dict(found.groupby("mixer").what.apply(set))["attention"] == {"prefill", "decode"}


def test_an_evaluation_of_ones_own(one: Path, ask: Ask) -> None:
    ask(one, "evaluation=longest", "evaluation.times=3", "--config-dir", OWN)
    [row] = load_evaluations(one.parent, "longest").itertuples()
    assert row.longest == 48 and row.said == r"=1+1\x1b[2J"


def test_a_cell_that_cannot_be_asked_does_not_stop_the_others(home: Path, ask: Ask) -> None:
    far = f"task.test=[{segment(4096, 2, 1)}]"  # farther than hyena's filters reach
    printed, errors = ask(home, "evaluation=scores", far, code=1)
    assert printed.endswith("scores: 1 answered, 0 were there already, 1 failed\n")
    [line] = [line for line in errors.splitlines() if line.startswith("failed: ")]
    assert "hyena" in line and "must cover the sequences: raise it to 4096" in line


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("{one}", "evaluation=NAME must be given: one of answers, ar_hits, distance, "),
        ("evaluation=scores", "name the runs: a results folder, or folders in it."),
        ("{one} evaluation=score", "unknown evaluation score; did you mean scores? (there are: "),
        ("{one} evaluation=longst --config-dir {own}", "unknown evaluation longst; did you mean longest?"),
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
        (SCORES + " task.test=[{seq_len:9}]", "a segment of task.test must be {seq_len, "),
        (SCORES + " task.test=[{", "cannot read task.test=[{"),
        ("{one}/config.yaml evaluation=scores", "is a file, and no whole archive"),
        ("{one}/none evaluation=scores", "does not exist: give the one that zoo.run wrote to."),
        ("{one} {bare} evaluation=scores", "1 of 2 runs have no weights, such as "),
        ("{empty} evaluation=scores", "holds no trained cell: run `python -m zoo.run` first."),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_asked(
    words: str, says: str, one: Path, tmp_path: Path, ask: Ask
) -> None:
    (tmp_path / "empty").mkdir()
    bare = tmp_path / one.name
    shutil.copytree(one, bare).joinpath(WEIGHTS).unlink()
    names = {"one": one, "bare": bare, "empty": tmp_path / "empty", "own": OWN}
    given = [word if "[" in word else word.format(**names) for word in words.split()]
    printed, errors = ask(*given, code=2)
    assert says in errors and errors.count("\n") == 1 and not printed
    assert not list(tmp_path.glob("**/evaluations"))
