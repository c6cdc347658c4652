"""The record on disk: what load() returns, and its message for a folder that it cannot read."""

import json
import math
import re
import zipfile
from pathlib import Path
from typing import Any, cast

import pytest

from tests.analysis import fake
from tests.command import ROOT
from tests.registry import composer
from zoo.launch.run_cell import record
from zoo.results import store, table
from zoo.results.checked import mistake
from zoo.results.columns import KEYS, documented
from zoo.results.outcome import UNSCORED
from zoo.results.record import Outcome
from zoo.tasks.build import build_task

COMPOSER = composer()
SLICES = build_task(COMPOSER.cell([]).config).segments("test")
NAMES = [segment.name for segment in SLICES]
READS = "this version reads schema 2 and 3"
AGAIN = "move its folder away, and the same command makes the cell again"
LATER = "keep it, and read it with zoo-recall 9.1 or later (this is "
EARLIER = "keep it, and read it with the version that wrote it (revision 0123456789ab)."
SCORE = {"accuracy": 0.5, "row_accuracy": 0.4, "exact_rows": 0.3, "loss": 0.2, "answers": 100, "rows": 10}


def outcome(status: Any = "ok") -> Outcome:
    diverged, made = status == "diverged", fake.records(seeds=1)[0]
    result: dict[str, Any] = {key: made[key] for key in Outcome.__required_keys__}
    result |= {"status": status, "diverged_step": 7 if diverged else None}
    result |= {"state_paper": None, "state_resident": 30, "total_steps": 9, "operations": 1e6}
    result["slices"] = [
        {"split": split, "slice": segment.slice, "coverage": 0.25} | (UNSCORED if diverged else SCORE)
        for split in ("valid", "test")
        for segment in SLICES
    ]
    assert mistake(result, Outcome) is None
    return cast(Outcome, result)


def write(folder: Path, *overrides: str, status: str = "ok") -> Path:
    cell = COMPOSER.cell([*overrides, f"results={folder}"])
    cell.folder.mkdir(parents=True)
    store.finish(cell.folder, record(cell, outcome(status)))
    (cell.folder / "metrics.csv").write_text("step,split,slice,metric,value\n1,train,,loss,2.5\n")
    return cell.folder


@pytest.fixture
def three(tmp_path: Path) -> Path:
    write(tmp_path, "mixer=sliding_window", "mixer.window=4", "lr=0.01", "seed=1")
    write(tmp_path, "mixer=attention", "d_model=32")
    write(tmp_path, "mixer=attention", "d_model=32", "lr=1.0", status="diverged")
    return tmp_path


def test_load_returns_a_row_for_each_run_split_and_slice(three: Path):
    frame = table.load(three)
    assert len(frame) == 3 * 2 * len(NAMES)
    assert not frame.duplicated(["run_id", "split", "slice"]).any()
    window = frame[frame.mixer == "sliding_window"]
    wanted = {"mixer.window": 4, "lr": 0.01, "seed": 1, "state_resident": 30, "accuracy": 0.5}
    assert {column: [*set(window[column])] for column in wanted} == {k: [v] for k, v in wanted.items()}
    assert window.state_paper.isna().all()
    assert set(window[window.split == "test"].coverage) == {0.25}
    loads = {(32, 4), (64, 8), (64, 16), (128, 32)}
    assert set(zip(window.seq_len, window.num_kv_pairs, strict=True)) == loads
    assert frame[frame.mixer == "attention"]["mixer.window"].isna().all()


def test_a_diverged_cell_stays_in_the_data_at_the_same_point(three: Path):
    frame = table.load(three)
    attention = frame[frame.mixer == "attention"]
    diverged = attention[attention.status == "diverged"]
    assert len(diverged) == 2 * len(NAMES)
    assert diverged.accuracy.isna().all()
    assert set(diverged.diverged_step) == {7}
    assert attention.point.nunique() == 1
    assert math.isnan(attention[attention.status == "ok"].diverged_step.iloc[0])


def test_the_columns_are_those_of_the_schema_and_are_documented(three: Path):
    frame = table.load(three)
    assert list(frame.columns[: len(KEYS) + 2]) == [*KEYS, "split", "slice"]
    plain = [column for column in frame if "." not in column and column not in ("seq_len", "num_kv_pairs")]
    assert [column for column in plain if f"| `{column}` |" not in documented()] == []
    assert not [line for line in documented().splitlines() if line.endswith("|  |")]
    page = (ROOT / "docs" / "numbers.md").read_text()
    assert documented() in page, f"docs/numbers.md must hold this table:\n{documented()}"


def test_curves_are_loaded_as_rows(three: Path):
    curves = table.load_metrics(three)
    assert list(curves.columns) == ["run_id", "mixer", "step", "split", "slice", "metric", "value"]
    assert len(curves) == 3


@pytest.mark.parametrize(
    ("content", "error", "fix"),
    [
        (b'{"schema": 3, "run_id": "attention-', "is not complete JSON", AGAIN),
        (b"9" * 5000, "is not complete JSON", AGAIN),
        (b"[]", f"has schema None, {READS}", AGAIN),
        (b"[" * 100000, "is not complete JSON", AGAIN),
        (b"\xff\xfe\x00", "is no text", ""),
        (b'{"schema": 99, "versions": {"zoo-recall": "9.1"}}', f"has schema 99, {READS}", LATER),
        (b'{"schema": 1, "git_revision": "0123456789abcdef"}', f"has schema 1, {READS}", EARLIER),
    ],
    ids=lambda part: str(part)[:30],
)
def test_a_damaged_record_is_named_with_the_fix(three: Path, content: bytes, error: str, fix: str):
    path = sorted(three.glob("*/result.json"))[1]
    path.write_bytes(content)
    with pytest.warns(UserWarning, match="^") as warned:
        frame = table.load(three)
    (message,) = (str(each.message) for each in warned)
    assert message.startswith(str(path)) and error in message and "\n" not in message
    assert fix in message and "delete" not in message
    assert len(frame) == 2 * 2 * len(NAMES)
    with pytest.raises(ValueError, match="^" + re.escape(message) + "$"):
        store.read(path.parent)


@pytest.mark.parametrize("folder", ["missing", "empty", "file"])
def test_a_folder_without_results_is_named(tmp_path: Path, folder: str):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    for read in (table.load, table.load_metrics):
        with pytest.raises(ValueError, match=rf"results folder .*{folder}.*: .*zoo.run"):
            read(tmp_path / folder)


def test_an_unwritable_folder_is_refused(tmp_path: Path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "inside", Path("/proc/zoo")):
        with pytest.raises(ValueError, match=r"results \(=.*\) must be a folder that can be written to"):
            store.check_writable(path)
    store.check_writable(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_a_record_dates_the_start_and_end_of_a_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell that goes on from a checkpoint keeps its start time; one that starts again has another."""
    times = iter(f"2026-11-24T00:00:0{i}Z" for i in range(9))
    monkeypatch.setattr(store, "_now", lambda: next(times))
    store.begin(tmp_path, "", {})
    zipfile.ZipFile(tmp_path / "last.ckpt", "w").close()
    store.begin(tmp_path, "", {})
    store.finish(tmp_path, {})
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["began"], result["ended"]) == ("2026-11-24T00:00:00Z", "2026-11-24T00:00:01Z")
    assert not (tmp_path / "last.ckpt").exists(), "a finished cell has no use for it"
    store.begin(tmp_path, "", {})
    assert json.loads((tmp_path / "env.json").read_text())["began"] == "2026-11-24T00:00:02Z"
