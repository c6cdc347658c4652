"""python -m analysis.report: what is in the page, what is text in it, and what it refuses."""

import base64
import gzip
import json
import re
import shlex
import shutil
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.drawing import style
from analysis.report import __main__ as command_line
from analysis.report import payload
from analysis.report.commands import command
from analysis.report.page import embedded, report
from analysis.statistics.axes import AXES
from tests.analysis import fake
from zoo.config.command_line import composer_of, one_cell
from zoo.config.compose import composer
from zoo.config.hydra_private import command_line_parser
from zoo.config.paths import CONF
from zoo.results import store, table

ARCHIVES = Path(__file__).parents[2] / "docs" / "results"
HOSTILE = "<script>alert(1)</script>"


class Page(HTMLParser):
    """Elements, by name, with their attributes; texts of the scripts that have an id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        of = self.elements[-1][1].get("id") if self.elements else None
        if of:
            self.texts[of] = self.texts.get(of, "") + data

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self.texts["data"])

    @property
    def details(self) -> dict[str, Any]:
        return json.loads(gzip.decompress(base64.b64decode(self.texts["details"])))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake.write(tmp_path_factory.mktemp("results"), seeds=2)


@pytest.fixture(scope="module")
def page(home: Path) -> Page:
    return Page(report([home])[0])


def rewritten(home: Path, changes: dict[str, Any], which: str = "result.json") -> None:
    """Change keys of a record that lies in `home`."""
    record = json.loads((home / which).read_text()) | changes
    (home / which).write_text(json.dumps(record))


def test_every_cell_is_in_it_once_with_its_scores(home: Path, page: Page) -> None:
    (setting,) = page.data["settings"]
    frame = table.load(home)
    cells = setting["cells"]
    assert sorted(cells["run_id"]) == sorted(frame["run_id"].unique())
    names = setting["slices"]["test"]
    assert names == [f"seq_len={length},num_kv_pairs={pairs}" for length, pairs in fake.SLICES]
    scores = frame.loc[frame["split"] == "test"].set_index(["run_id", "slice"])["accuracy"]
    for run_id, row in zip(cells["run_id"], cells["accuracy"]["test"], strict=True):
        expected = [None if pd.isna(scores[run_id, name]) else scores[run_id, name] for name in names]
        assert row == expected
    points = [setting["points"]["point"][place] for place in cells["point"]]
    of = frame.drop_duplicates("run_id").set_index("run_id")["point"]
    assert points == of[cells["run_id"]].tolist()


def test_nothing_is_fetched(page: Page) -> None:
    (policy,) = [about["content"] or "" for tag, about in page.elements if "http-equiv" in about]
    assert "default-src 'none'" in policy and "http" not in policy
    assert not [about for _, about in page.elements if {"src", "href"} & about.keys()]


def test_the_same_results_give_the_same_bytes(home: Path) -> None:
    assert report([home])[0] == report([home])[0]


def test_details_hold_curves_and_no_folder_of_the_machine(home: Path, page: Page) -> None:
    one = next(iter(page.details.values()))
    steps, accuracy = one["accuracy"]
    assert steps == list(range(100, 601, 100)) and len(accuracy) == 6
    (folder, *_) = store.folders(home)
    (folder / "config.yaml").write_text("d_model: 64\nresults: /home/me\nlogger:\n  dir: /home/me\nlr: 0.1\n")
    try:
        assert Page(report([home])[0]).details[folder.name]["config"] == "d_model: 64\nlr: 0.1"
    finally:
        (folder / "config.yaml").unlink()


def test_a_long_curve_is_thinned_and_keeps_its_end(home: Path, tmp_path: Path) -> None:
    (folder, *_) = store.folders(home)
    copy = tmp_path / folder.name
    copy.mkdir()
    (copy / "result.json").write_text((folder / "result.json").read_text())
    slice_ = '"seq_len=32,num_kv_pairs=4"'
    lines = [f"{step},valid,{slice_},accuracy,{step / 1000}" for step in range(1, 1001)]
    lines += [f"{step},train,{slice_},loss,{loss}" for step, loss in ((5, 3.0), (10, "nan"))]
    lines += [f"{step},train,{slice_},answers,64" for step in (5, 10)]
    (copy / "metrics.csv").write_text("\n".join(["step,split,slice,metric,value", *lines]))
    curves = Page(report([tmp_path])[0]).details[folder.name]
    steps, accuracy = curves["accuracy"]
    assert 60 <= len(steps) <= 120 and steps[-1] == 1000 and accuracy[-1] == 1.0
    assert curves["loss"] == [[5, 10], [3.0, None]]  # NaN is no JSON


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["mixer=based", "results=/home/me/x", "lr=0.1"], ["mixer=based", "lr=0.1"]),
        (["model.layers=[base_conv,mixer]", "mixer.note=a b; rm"], None),
        (["logger=wandb", "logger.project=x", "hydra/launcher=slurm", "hydra.run.dir=x"], []),
        (["+results=/x", "~logger", "results_of=3"], ["results_of=3"]),
    ],
)
def test_the_command_is_that_of_the_record_for_a_shell(words: list[str], left: list[str] | None) -> None:
    assert shlex.split(command(words)) == ["python", "-m", "zoo.run", *(words if left is None else left)]


def test_the_words_of_a_record_are_one_cell_again_for_a_mixer_of_ones_own_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_conf" / "mixer").mkdir(parents=True)
    yaml = (CONF / "mixer" / "linear_attention.yaml").read_text()
    (tmp_path / "my_conf" / "mixer" / "mine.yaml").write_text(yaml)
    mine = composer(Path("my_conf")).cell(["mixer=mine", "lr=0.1", "results=/somewhere"])
    assert mine.words["config_dir"] == "my_conf"
    (one,) = [
        record
        for record in store.records(ARCHIVES / "mini_se_attn_ablations.zip")
        if record["run_id"] == "se_attn-70085f731722"  # the sweep has other grids that these words fit
    ]
    for record in (mine.words | {"run_id": mine.run_id}, one):
        (*_, words) = command(record["overrides"], record.get("config_dir", "")).partition("zoo.run ")
        args = command_line_parser().parse_args(shlex.split(words))
        assert composer_of(args).cell(one_cell(args, args.overrides)).run_id == record["run_id"]
    assert "config_dir" not in composer().cell(["mixer=based"]).words


def test_names_from_results_are_text(home: Path, page: Page, tmp_path: Path) -> None:
    evil = tmp_path / "<img src=x onerror=alert(1)>"
    fake.write(evil, seeds=1)
    for folder in store.folders(evil):
        label = HOSTILE + json.loads((folder / "result.json").read_text())["label"]
        rewritten(folder, {"label": label, "family": HOSTILE, "overrides": [f"mixer={HOSTILE}"]})
    failed = evil / "failed-1"
    failed.mkdir()
    (failed / "error.txt").write_text(f"ValueError: {HOSTILE}\n")
    hostile = Page(report([evil])[0])
    assert Counter(tag for tag, _ in hostile.elements) == Counter(tag for tag, _ in page.elements)
    assert {series["family"] for series in hostile.data["settings"][0]["series"]} == {HOSTILE}
    assert hostile.data["failures"][0]["first"] == f"ValueError: {HOSTILE}"
    (words,) = {each["command"] for each in hostile.details.values()}
    assert shlex.split(words)[-1] == f"mixer={HOSTILE}"
    assert "<" not in embedded({"</script><!--": "<"})


def test_records_that_cannot_be_used_are_listed_and_the_rest_is_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.write(tmp_path, seeds=1)
    damaged, foreign, lacking, twin, incomplete, curveless, *rest = store.folders(tmp_path)
    (damaged / "result.json").write_text('{"schema": 2, "run')
    rewritten(foreign, {"schema": 0})
    record = json.loads((lacking / "result.json").read_text())
    del record["lr"]
    (lacking / "result.json").write_text(json.dumps(record))
    rewritten(twin, {"run_id": rest[-1].name})
    record = json.loads((incomplete / "result.json").read_text())
    record["slices"][0]["accuracy"] = None
    (incomplete / "result.json").write_text(json.dumps(record))
    (curveless / "metrics.csv").unlink()
    assert command_line.main([str(tmp_path)]) == 0
    said = capsys.readouterr().err.splitlines()
    page = Page((tmp_path / "report.html").read_text())
    problems = {problem["where"]: problem["why"] for problem in page.data["problems"]}
    assert set(problems) == {f.name for f in (damaged, foreign, lacking, incomplete, curveless, rest[-1])}
    assert "not complete JSON" in problems[damaged.name] and "schema 0" in problems[foreign.name]
    assert "'lr'" in problems[lacking.name] and "same cell" in problems[rest[-1].name]
    assert "no valid accuracy" in problems[incomplete.name] and "curve" in problems[curveless.name]
    assert len(said) == 6 and all(line.startswith("left out: ") for line in said)
    (setting,) = page.data["settings"]
    assert len(setting["cells"]["run_id"]) == 51 - 5
    assert str(tmp_path) not in page.texts["data"]


def test_failures_are_grouped_by_message_without_folders_of_the_machine(tmp_path: Path) -> None:
    fake.write(tmp_path, seeds=1)
    frame = '  File "/home/me/lib/python3/site-packages/torch/x.py", line 1, in f\n'
    for i in range(3):
        (tmp_path / f"gla-{i}").mkdir()
        kind = "ValueError: no" if i else "KeyError: 'x'"
        text = f'Traceback (most recent call last):\n  File "/home/me/zoo/run.py", line 3\n{frame}{kind}\n'
        (tmp_path / f"gla-{i}" / "error.txt").write_text(text)
    failures = Page(report([tmp_path])[0]).data["failures"]
    assert [(group["first"], group["run_ids"]) for group in failures] == [
        ("ValueError: no", ["gla-1", "gla-2"]),
        ("KeyError: 'x'", ["gla-0"]),
    ]
    assert "/home/me" not in failures[0]["traceback"]
    assert 'File "zoo/run.py", line 3' in failures[0]["traceback"]
    assert "site-packages/torch/x.py" in failures[0]["traceback"]


def test_two_loads_and_two_protocols_are_settings_of_their_own(tmp_path: Path) -> None:
    fake.write(tmp_path, seeds=1)
    for folder in list(store.folders(tmp_path)):
        (folder / "config.yaml").write_text("optim:\n  max_epochs: 4\nlr: 0.1\n")
        record = json.loads((folder / "result.json").read_text())
        for name, changes in (
            ("load", {"task_settings": record["task_settings"] | {"vocab_size": 256}}),
            ("protocol", {}),
        ):
            again = tmp_path / f"{folder.name}-{name}"
            again.mkdir()
            own = {"run_id": again.name, "point": f"{record['point']}-{name}"}
            (again / "result.json").write_text(json.dumps(record | changes | own))
            (again / "metrics.csv").write_text((folder / "metrics.csv").read_text())
            epochs = 8 if name == "protocol" else 4
            (again / "config.yaml").write_text(f"optim:\n  max_epochs: {epochs}\nlr: 0.1\n")
    settings = Page(report([tmp_path])[0]).data["settings"]
    cells = [set(setting["cells"]["run_id"]) for setting in settings]
    assert len(settings) == 3 and [len(each) for each in cells] == [51] * 3
    assert not cells[0] & cells[1] and not cells[1] & cells[2]
    for setting, own in zip(settings, cells, strict=True):
        assert (
            len(
                {
                    run_id.rpartition("-")[2] in ("load", "protocol") and run_id.rpartition("-")[2]
                    for run_id in own
                }
            )
            == 1
        )
        assert ("max_epochs=8" in setting["name"]) == any(run_id.endswith("protocol") for run_id in own)
        assert ("vocab_size=256" in setting["name"]) == any(run_id.endswith("load") for run_id in own)


def test_several_folders_and_archives_are_one_page(tmp_path: Path, home: Path) -> None:
    mine, theirs = tmp_path / "all" / "mine", tmp_path / "all" / "theirs.zip"
    fake.write(mine, seeds=2)
    (first, second, third, *rest) = store.folders(mine)
    for folder in rest[10:]:
        shutil.rmtree(folder)
    rewritten(first, {"wall_seconds": 1.0, "git_revision": "e" * 40, "git_clean": False})
    rewritten(second, {"slices": json.loads((third / "result.json").read_text())["slices"]})
    shutil.make_archive(str(theirs.with_suffix("")), "zip", home)
    (tmp_path / "all" / "broken.zip").write_text("no archive")
    text, found = report([tmp_path / "all"], "today")
    page = Page(text)
    assert page.data["made"] == {
        "when": "today",
        "names": ["broken.zip", "mine", "theirs.zip"],
        "twice": 12,
        "revisions": [[None, None, 101], ["e" * 40, False, 1]],
    }
    (setting,) = page.data["settings"]
    origins = dict(zip(setting["cells"]["run_id"], setting["cells"]["origin"], strict=True))
    assert len(origins) == 102 and set(origins.values()) == {1, 2}
    assert [origins[folder.name] for folder in (first, second, third)] == [1, 1, 1]
    assert {problem.where for problem in found.problems} == {"broken.zip", second.name}
    assert "with other scores" in next(p.why for p in found.problems if p.where == second.name)
    with pytest.raises(ValueError, match=r"broken\.zip"):
        report([mine, tmp_path / "all" / "broken.zip"])


def test_no_page_is_written_through_a_link(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "report.html").symlink_to(tmp_path / "precious")
    for out in (tmp_path / "report.html", Path("/dev/null")):
        assert command_line.main([str(home), "--out", str(out)]) == 1
        one_line(capsys, "is a link or no plain file")
    assert (tmp_path / "precious").read_text() == "precious"


def test_scores_above_what_is_possible_are_alarms(tmp_path: Path, page: Page) -> None:
    assert page.data["alarms"] == []
    fake.write(tmp_path, seeds=1)
    folder = next(store.folders(tmp_path))
    rewritten(folder, {"state_resident": 1, "state_touched": 1, "state_paper": 1})
    (alarm, *_) = Page(report([tmp_path])[0]).data["alarms"]
    assert folder.name in alarm and "above" in alarm


@pytest.mark.parametrize("status", ["ok", "diverged"])
def test_one_cell_alone_finished_or_diverged(tmp_path: Path, status: str) -> None:
    fake.write(tmp_path, seeds=1)
    for folder in list(store.folders(tmp_path))[1:]:
        (folder / "result.json").unlink()
    folder = next(store.folders(tmp_path))
    record = json.loads((folder / "result.json").read_text())
    if status == "diverged":
        scores = ("accuracy", "row_accuracy", "exact_rows", "loss")
        empty = [entry | dict.fromkeys(scores) for entry in record["slices"]]
        rewritten(folder, {"status": status, "slices": empty})
    (setting,) = Page(report([tmp_path])[0]).data["settings"]
    assert setting["cells"]["run_id"] == [folder.name]
    assert setting["cells"]["diverged"] == [status == "diverged"]


def test_what_cannot_be_drawn_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty, failed, damaged = tmp_path / "empty", tmp_path / "failed", tmp_path / "damaged"
    for folder in (empty, failed / "a", damaged / "a"):
        folder.mkdir(parents=True)
    (failed / "a" / "error.txt").write_text("ValueError: no\n")
    (damaged / "a" / "result.json").write_text("{")
    for words, says in (
        ([empty], "no finished cell"),
        ([tmp_path / "nowhere"], "does not exist"),
        ([failed], "all 1 cells in .* failed, a: ValueError: no"),
        ([damaged], "none of the 1 records .* not complete JSON"),
    ):
        assert command_line.main([*map(str, words)]) == 1
        one_line(capsys, says)


def test_a_place_that_cannot_be_written_is_one_line(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert command_line.main([str(home), "--out", str(tmp_path / "file" / "x.html")]) == 1
    one_line(capsys, "file")


def test_every_axis_and_marker_has_a_name_in_the_page() -> None:
    assert [axis["key"] for axis in payload.axes()] == list(AXES)
    markers = {*style.MARKERS, *style.FAMILY_MARKERS.values(), *style.OTHER_MARKERS}
    assert markers <= payload.SYMBOLS.keys()


def one_line(capsys: pytest.CaptureFixture[str], says: str) -> None:
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith("error: ") and not captured.out
    assert re.search(says, line), line
