"""python -m analysis.report: what is in the page, and what is text in it."""

import json
import shlex
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from analysis.drawing import style
from analysis.report import payload
from analysis.report.details import command
from analysis.report.page import embedded, report
from analysis.statistics.axes import AXES
from tests.analysis import fake
from tests.analysis.report.pages import HOSTILE, Page
from tests.command import written
from zoo.config.command_line import composer_of, one_cell, parser
from zoo.config.compose import composer
from zoo.config.paths import CONF
from zoo.results import store, table

pytestmark = pytest.mark.xdist_group("report")
ARCHIVES = Path(__file__).parents[3] / "docs" / "results"


def test_every_cell_is_in_the_page_once_with_its_scores(small: Path, parsed: Page) -> None:
    (setting,) = parsed.data["settings"]
    frame = table.load(small)
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


def test_the_page_fetches_nothing(parsed: Page) -> None:
    (policy,) = [about["content"] or "" for tag, about in parsed.elements if "http-equiv" in about]
    assert "default-src 'none'" in policy and "http" not in policy
    assert not [about for _, about in parsed.elements if {"src", "href"} & about.keys()]


def test_the_same_results_give_the_same_bytes(small: Path) -> None:
    assert report([small])[0] == report([small])[0]


def test_details_hold_curves_and_no_folder_of_the_machine(small: Path, parsed: Page) -> None:
    one = next(iter(parsed.details.values()))
    steps, accuracy = one["accuracy"]
    assert steps == list(range(100, 601, 100)) and len(accuracy) == 6
    (folder, *_) = store.folders(small)
    (folder / "config.yaml").write_text("d_model: 64\nresults: /home/me\nlogger:\n  dir: /home/me\nlr: 0.1\n")
    try:
        assert Page(report([small])[0]).details[folder.name]["config"] == "d_model: 64\nlr: 0.1"
    finally:
        (folder / "config.yaml").unlink()


def test_a_long_curve_is_thinned_and_keeps_its_end(tmp_path: Path) -> None:
    slice_ = '"seq_len=32,num_kv_pairs=4"'
    lines = [f"{step},valid,{slice_},accuracy,{step / 1000}" for step in range(1, 1001)]
    lines += [f"{step},train,{slice_},loss,{loss}" for step, loss in ((5, 3.0), (10, "nan"))]
    lines += [f"{step},train,{slice_},answers,64" for step in (5, 10)]
    metrics = "\n".join(["step,split,slice,metric,value", *lines])
    folder = fake.put(tmp_path, fake.records(seeds=1)[0], {"metrics.csv": metrics})
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
def test_the_command_of_a_cell_is_quoted_for_a_shell(words: list[str], left: list[str] | None) -> None:
    assert shlex.split(command(words)) == ["python", "-m", "zoo.run", *(words if left is None else left)]


def test_the_command_of_a_record_makes_its_cell_again_also_with_a_users_mixer(cwd: Path) -> None:
    written(cwd / "my_conf" / "mixer" / "mine.yaml", (CONF / "mixer" / "linear_attention.yaml").read_text())
    mine = composer(Path("my_conf")).cell(["mixer=mine", "lr=0.1", "results=/somewhere"])
    assert mine.words["config_dir"] == "my_conf"
    (one,) = [
        record
        for record in store.records(ARCHIVES / "mini_se_attn_ablations.zip")
        if record["run_id"] == "se_attn-70085f731722"  # the sweep has other grids that these words fit
    ]
    for record in (mine.words | {"run_id": mine.run_id}, one):
        (*_, words) = command(record["overrides"], record.get("config_dir", "")).partition("zoo.run ")
        args = parser().parse_args(shlex.split(words))
        assert composer_of(args).cell(one_cell(args, args.overrides)).run_id == record["run_id"]
    assert "config_dir" not in composer().cell(["mixer=based"]).words


def test_names_from_results_are_text(small: Path, parsed: Page, tmp_path: Path) -> None:
    evil = tmp_path / "<img src=x onerror=alert(1)>"
    fake.write(evil, seeds=1)
    for folder in store.folders(evil):
        label = HOSTILE + json.loads((folder / "result.json").read_text())["label"]
        fake.change(folder, label=label, family=HOSTILE, overrides=[f"mixer={HOSTILE}"])
    written(evil / "failed-1" / "error.txt", f"ValueError: {HOSTILE}\n")
    hostile = Page(report([evil])[0])
    assert Counter(tag for tag, _ in hostile.elements) == Counter(tag for tag, _ in parsed.elements)
    assert {series["family"] for series in hostile.data["settings"][0]["series"]} == {HOSTILE}
    assert hostile.data["failures"][0]["first"] == f"ValueError: {HOSTILE}"
    (words,) = {each["command"] for each in hostile.details.values()}
    assert shlex.split(words)[-1] == f"mixer={HOSTILE}"
    assert "<" not in embedded({"</script><!--": "<"})


def test_every_axis_and_marker_has_a_name_in_the_page() -> None:
    assert [axis["key"] for axis in payload.axes()] == list(AXES)
    markers = {*style.MARKERS, *style.FAMILY_MARKERS.values(), *style.OTHER_MARKERS}
    assert markers <= payload.SYMBOLS.keys()
