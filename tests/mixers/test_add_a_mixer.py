"""What docs/extending.md says of adding a mixer, done: one file and one yaml in a folder of one's own."""

import re
import sys
from pathlib import Path

import pytest

from tests.command import ROOT, SMALL, Zoo
from tests.registry import cases
from zoo.mixers import laws
from zoo.results import table

PAGE = (ROOT / "docs" / "extending.md").read_text()


def block(first_line: str) -> str:
    """The fenced block of the page that begins with this line."""
    (found,) = [text for text in re.findall(r"```\w+\n(.*?)```", PAGE, re.S) if text.startswith(first_line)]
    return found


CODE = block("# my_mixer.py")
YAML = block("# my_conf/mixer/my_mixer.yaml")


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return written(tmp_path, monkeypatch, CODE, YAML)


def written(home: Path, monkeypatch: pytest.MonkeyPatch, code: str, yaml: str) -> Path:
    """A folder of one's own to work in; each block begins with a comment that names its file."""
    for text in (code, yaml):
        path = home / text.splitlines()[0].removeprefix("# ")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    module = code.splitlines()[0].removeprefix("# ").removesuffix(".py")
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr("tests.command.TOYS", home / "my_conf")
    monkeypatch.chdir(home)
    return home


def test_it_runs_and_stands_in_the_results_under_its_label(
    mine: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    code, out, err = Zoo(monkeypatch, capfd)(*SMALL, "mixer=my_mixer")
    assert code == 0, err
    assert "Average(decay=0.9)" in out
    frame = table.load(mine / "results")
    assert set(zip(frame.mixer, frame.label, frame.family, strict=True)) == {
        ("my_mixer", "Moving average", "ssm")
    }
    assert set(frame["mixer.decay"]) == {0.9}


def test_a_glob_finds_it(mine: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    zoo = Zoo(monkeypatch, capfd)
    code, _, err = zoo("-m", *SMALL, "mixer=glob([my_*,sliding*])")
    assert code == 0, err
    assert set(table.load(mine / "results").label) == {"Moving average", "Sliding window"}


def test_it_keeps_the_laws(mine: Path):
    found = cases(mine / "my_conf")
    assert [str(case) for case in found] == ["my_mixer", "my_mixer[decay=0.5]"]
    assert [line for case in found for line in laws.broken(case)] == []


def test_the_laws_catch_a_mistake_in_it(mine: Path):
    (mine / "my_mixer.py").write_text(CODE.replace("else state.s", "else 0.9 * state.s"))
    lines = laws.broken(cases(mine / "my_conf")[0])
    assert any(line.startswith("splitting a sequence changes nothing: ") for line in lines)


def test_a_misspelt_setting_of_it_is_met_with_its_own(
    mine: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    code, _, err = Zoo(monkeypatch, capfd)(*SMALL, "mixer=my_mixer", "mixer.decai=0.5")
    assert (code, err) == (2, "unknown key mixer.decai; did you mean mixer.decay?\n")
