"""python -m analysis.report: several sources and settings, unusable records, and refusals."""

import json
import shutil
from pathlib import Path

import pytest

from analysis.records import cells
from analysis.records.readable import filtered, readable
from analysis.report import __main__ as command_line
from analysis.report.page import report
from tests.analysis import fake
from tests.analysis.fake import change
from tests.analysis.report.pages import Page
from tests.command import Run, written
from zoo.results import store

pytestmark = pytest.mark.xdist_group("report")


def test_each_load_and_protocol_is_a_setting(tmp_path: Path) -> None:
    fake.write(tmp_path, seeds=1)
    folders = list(store.folders(tmp_path))
    for folder in folders:
        (folder / "config.yaml").write_text("optim:\n  max_epochs: 4\nlr: 0.1\n")
        record = json.loads((folder / "result.json").read_text())
        load = {"task_settings": record["task_settings"] | {"vocab_size": 256}}
        for name, epochs, changes in (("load", 4, load), ("protocol", 8, {})):
            again = shutil.copytree(folder, tmp_path / f"{folder.name}-{name}")
            change(again, run_id=again.name, point=f"{record['point']}-{name}", **changes)
            (again / "config.yaml").write_text(f"optim:\n  max_epochs: {epochs}\nlr: 0.1\n")
    settings = Page(report([tmp_path])[0]).data["settings"]
    expected = {kind: {folder.name + kind for folder in folders} for kind in ("", "-load", "-protocol")}
    named = {"-load": "vocab_size=256", "-protocol": "max_epochs=8"}
    for setting in settings:
        kind = "".join(kind for kind, words in named.items() if words in setting["name"])
        assert set(setting["cells"]["run_id"]) == expected.pop(kind)
    assert not expected
    table = readable(tmp_path).table
    with pytest.raises(ValueError, match=r'in optim.max_epochs; keep .* --where "optim.max_epochs == [48]"'):
        cells.named(table)
    assert filtered(table, "optim.max_epochs == 8")["run_id"].str.endswith("-protocol").all()


def test_what_lies_in_the_folder_itself_is_seen_before_what_lies_below(tmp_path: Path) -> None:
    fake.write(tmp_path / "demo", seeds=1)
    own = shutil.copytree(next(iter(store.folders(tmp_path / "demo"))), tmp_path / "mine")
    change(own, lambda record: record["task_settings"].update(vocab_size=256), run_id="mine", point="mine")
    settings = Page(report([tmp_path])[0]).data["settings"]
    assert [len(setting["cells"]["run_id"]) for setting in settings] == [1, len(fake.records(1))]


def test_several_folders_and_archives_are_one_page(tmp_path: Path, small: Path) -> None:
    mine, theirs = tmp_path / "all" / "mine", tmp_path / "all" / "theirs.zip"
    fake.write(mine, seeds=2)
    (first, second, third, *rest) = store.folders(mine)
    for folder in rest[10:]:
        shutil.rmtree(folder)
    change(first, wall_seconds=1.0, git_revision="e" * 40, git_clean=False)
    change(second, slices=json.loads((third / "result.json").read_text())["slices"])
    shutil.make_archive(str(theirs.with_suffix("")), "zip", small)
    (tmp_path / "all" / "broken.zip").write_text("no archive")
    text, summary = report([tmp_path / "all"], "today")
    page = Page(text)
    assert page.data["made"] == {
        "when": "today",
        "names": ["broken.zip", "mine", "theirs.zip"],
        "twice": 7,
        "revisions": [[None, None, 107], ["e" * 40, False, 1]],
    }
    (setting,) = page.data["settings"]
    origins = dict(zip(setting["cells"]["run_id"], setting["cells"]["origin"], strict=True))
    assert len(origins) == 108 and set(origins.values()) == {1, 2}
    assert [origins[folder.name] for folder in (first, second, third)] == [1, 1, 1]
    assert origins[f"{second.name}@theirs"] == 2  # its point is drawn twice, by folder
    assert any(series["name"].endswith(" (theirs)") for series in setting["series"])
    assert {problem.where for problem in summary.problems} == {"broken.zip"}
    with pytest.raises(ValueError, match=r"broken\.zip"):
        report([mine, tmp_path / "all" / "broken.zip"])


def test_runs_of_one_cell_are_drawn_by_folder_and_older_records_join_the_series(tmp_path: Path) -> None:
    """A reproduction beside an archive, below the folder given; one cell was run twice in one folder."""
    home = fake.write(tmp_path / "mine", seeds=2)
    hyenas = sorted(home.glob("hyena-*"))
    shutil.make_archive(str(home / "before"), "zip", fake.write(tmp_path / "old", seeds=2))
    for folder in hyenas:
        change(folder, lambda record: record["mixer_settings"].update(train_features=False), wall_seconds=1.0)
    scores = json.loads((hyenas[2] / "result.json").read_text())["slices"]
    change(hyenas[0], slices=scores)
    shutil.copytree(hyenas[4], home / "hyena-x")
    change(home / "hyena-x", slices=scores)
    page = Page(report([home])[0])
    (setting,) = page.data["settings"]
    assert page.data["problems"] == [] and page.data["made"]["names"] == ["mine", "before.zip"]
    names = [series["name"] for series in setting["series"] if "Hyena" in series["name"]]
    assert names == ["Hyena", "Hyena (before)", "Hyena (mine, run 2)"]
    again = dict(zip(setting["points"]["series"], setting["points"]["again"], strict=True))
    of = {name: setting["points"]["series"][place] for name, place in again.items() if place is not None}
    assert of == {"Hyena (before)": "Hyena", "Hyena (mine, run 2)": "Hyena"}


def test_a_setting_that_older_records_lack_is_filled_in_and_others_are_unchanged(tmp_path: Path) -> None:
    """The page, and pareto and statistics of one folder, have a series for each value of the setting."""
    fake.write(tmp_path, seeds=2)
    hyenas = sorted(tmp_path.glob("hyena-*"))
    for folder, value in zip(hyenas, [False, True, None, True, False, True], strict=True):
        record = json.loads((folder / "result.json").read_text())
        new = record["mixer_settings"] | ({} if value is None else {"train_features": value})
        change(folder, mixer_settings=new, point=f"{record['point']}{'-new' * bool(value)}")
    names = {"Hyena, train_features=False", "Hyena, train_features=True"}
    (setting,) = Page(report([tmp_path])[0]).data["settings"]
    assert {each["name"] for each in setting["series"] if "Hyena" in each["name"]} == names
    series = cells.named(readable(tmp_path).table)["series"]
    assert set(series[series.str.contains("Hyena")]) == names


def test_unusable_records_are_listed_and_the_rest_is_drawn(tmp_path: Path, run: Run) -> None:
    fake.write(tmp_path, seeds=1)
    damaged, foreign, lacking, incomplete, curveless, _, untold, *_ = store.folders(tmp_path)
    (damaged / "result.json").write_text('{"schema": 2, "run')
    change(foreign, schema=0)
    change(lacking, lambda record: record.pop("lr"))
    change(incomplete, lambda record: record["slices"][0].update(accuracy=None))
    (curveless / "metrics.csv").unlink()
    (untold / "config.yaml").write_text("optim: [\n")
    lines = run(command_line.main, tmp_path)[1].splitlines()
    page = Page((tmp_path / "report.html").read_text())
    problems = {problem["where"]: problem["why"] for problem in page.data["problems"]}
    assert set(problems) == {f.name for f in (damaged, foreign, lacking, incomplete, curveless, untold)}
    assert "not complete JSON" in problems[damaged.name] and "schema 0" in problems[foreign.name]
    assert "'lr'" in problems[lacking.name]
    assert "no valid accuracy" in problems[incomplete.name] and "curve" in problems[curveless.name]
    assert problems[untold.name].startswith("its config.yaml cannot be read")
    assert len(lines) == 6 and all(line.startswith("left out: ") for line in lines)
    (setting,) = page.data["settings"]
    assert len(setting["cells"]["run_id"]) == 51 - 4
    assert str(tmp_path) not in page.texts["data"]


def test_failures_are_grouped_by_message_without_folders_of_the_machine(tmp_path: Path) -> None:
    fake.write(tmp_path, seeds=1)
    frame = '  File "/home/me/lib/python3/site-packages/torch/x.py", line 1, in f\n'
    for i in range(3):
        kind = "ValueError: no" if i else "KeyError: 'x'"
        text = f'Traceback (most recent call last):\n  File "/home/me/zoo/run.py", line 3\n{frame}{kind}\n'
        written(tmp_path / f"gla-{i}" / "error.txt", text)
    failures = Page(report([tmp_path])[0]).data["failures"]
    assert [(group["first"], group["run_ids"]) for group in failures] == [
        ("ValueError: no", ["gla-1", "gla-2"]),
        ("KeyError: 'x'", ["gla-0"]),
    ]
    assert "/home/me" not in failures[0]["traceback"]
    assert 'File "zoo/run.py", line 3' in failures[0]["traceback"]
    assert "site-packages/torch/x.py" in failures[0]["traceback"]


def test_scores_above_what_is_possible_are_alarms(tmp_path: Path, parsed: Page) -> None:
    assert parsed.data["alarms"] == []
    fake.write(tmp_path, seeds=1)
    folder = next(store.folders(tmp_path))
    change(folder, state_resident=1, state_touched=1, state_paper=1)
    (alarm, *_) = Page(report([tmp_path])[0]).data["alarms"]
    assert folder.name in alarm and "above" in alarm


def test_no_page_is_written_through_a_link_or_below_a_file(small: Path, tmp_path: Path, run: Run) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "report.html").symlink_to(tmp_path / "precious")
    for out in (tmp_path / "report.html", Path("/dev/null")):
        run.refused("is a link or no plain file", command_line.main, small, "--out", out)
    below = tmp_path / "precious" / "x.html"
    run.refused("x.html cannot be written .* with --out", command_line.main, small, "--out", below)
    assert (tmp_path / "precious").read_text() == "precious"


def test_a_folder_without_a_usable_record_is_one_line(tmp_path: Path, run: Run) -> None:
    failed, damaged = tmp_path / "failed", tmp_path / "damaged"
    run.refused("no finished cell", command_line.main, tmp_path)
    written(failed / "a" / "error.txt", "ValueError: no\n")
    written(damaged / "a" / "result.json", "{")
    run.refused("does not exist", command_line.main, tmp_path / "nowhere")
    run.refused("all 1 cells in .* failed, a: ValueError: no", command_line.main, failed)
    run.refused("none of 1 records .* not complete JSON", command_line.main, damaged)
