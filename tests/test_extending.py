"""What docs/extending.md says of adding a mixer or a task, done: a file and a yaml in one's own folder."""

import re
import sys
from pathlib import Path

import pytest

from tests.command import ROOT, SMALL, Zoo, written
from tests.registry import cases
from zoo.mixers import laws
from zoo.results import table
from zoo.tasks.__main__ import main

PAGE = (ROOT / "docs" / "extending.md").read_text()


def block(first_line: str) -> str:
    """The fenced block of the page that begins with this line."""
    (found,) = [text for text in re.findall(r"```\w+\n(.*?)```", PAGE, re.S) if text.startswith(first_line)]
    return found


CODE = block("# my_mixer.py")
YAML = block("# my_conf/mixer/my_mixer.yaml")


@pytest.fixture
def mine(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return at_home(cwd, monkeypatch, CODE, YAML)


def at_home(home: Path, monkeypatch: pytest.MonkeyPatch, code: str, yaml: str) -> Path:
    """A folder of one's own to work in; each block begins with a comment that names its file."""
    for text in (code, yaml):
        written(home / text.splitlines()[0].removeprefix("# "), text)
    module = code.splitlines()[0].removeprefix("# ").removesuffix(".py")
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr("tests.command.TOYS", home / "my_conf")
    return home


def test_a_mixer_runs_and_stands_in_the_results_under_its_label(mine: Path, zoo: Zoo):
    assert "Average(decay=0.9)" in zoo.done(*SMALL, "mixer=my_mixer")
    frame = table.load(mine / "results")
    said = ("my_mixer", "Moving average", "ssm")
    assert set(zip(frame.mixer, frame.label, frame.family, strict=True)) == {said}
    assert set(frame["mixer.decay"]) == {0.9}


def test_a_glob_finds_a_mixer(mine: Path, zoo: Zoo):
    zoo.done("-m", *SMALL, "mixer=glob([my_*,sliding*])")
    assert set(table.load(mine / "results").label) == {"Moving average", "Sliding window"}


def test_a_mixer_keeps_the_laws(mine: Path):
    found = cases(mine / "my_conf")
    assert [str(case) for case in found] == ["my_mixer", "my_mixer[decay=0.5]"]
    assert [line for case in found for line in laws.broken(case)] == []


def test_the_laws_catch_a_mistake_in_a_mixer(mine: Path):
    (mine / "my_mixer.py").write_text(CODE.replace("else state.s", "else 0.9 * state.s"))
    lines = laws.broken(cases(mine / "my_conf")[0])
    assert any(line.startswith("splitting a sequence changes nothing: ") for line in lines)


def test_a_misspelt_setting_of_a_mixer_is_met_with_its_own(mine: Path, zoo: Zoo):
    said = zoo.refused(*SMALL, "mixer=my_mixer", "mixer.decai=0.5")
    assert said == "unknown key mixer.decai; did you mean mixer.decay?\n"


TASK = block("# my_task.py")
TASK_YAML = block("# my_conf/task/first_token.yaml")
TASK_WORDS = ["first_token", "--config-dir", "my_conf"]


@pytest.fixture
def task_home(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return at_home(cwd, monkeypatch, TASK, TASK_YAML)


def laws_of_the_task(capsys: pytest.CaptureFixture[str]) -> tuple[object, str]:
    with pytest.raises(SystemExit) as ended:
        main([*TASK_WORDS, "--laws"])
    return ended.value.code, capsys.readouterr().out


def test_a_task_shows_rows_and_obeys_the_laws(task_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([*TASK_WORDS, "--show", "1"])
    assert "train 0: seq_len=16, 4096 examples, chance 0.016\n  v23 25 5" in capsys.readouterr().out
    code, said = laws_of_the_task(capsys)
    assert not code, said


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("answers=inputs[:, :1]", "answers=inputs[:, 1:2]"),  # the oracle is wrong
        ("1 / (self.vocab_size - 1)", "2 / (self.vocab_size - 1)"),  # chance is wrong
        ("stream(*path)", "stream(path[0])"),  # train, valid and test meet
        ("inputs[:, -1] = 0", "inputs[:, -1] = inputs[:, 0]"),  # a row that gives its answer away
    ],
)
def test_its_laws_catch_a_mistake_in_a_task(
    task_home: Path, capsys: pytest.CaptureFixture[str], right: str, wrong: str
) -> None:
    assert right in TASK
    (task_home / "my_task.py").write_text(TASK.replace(right, wrong))
    code, said = laws_of_the_task(capsys)
    assert code, said


MISTAKES = {
    ("return 1 / (self.vocab_size - 1)", "return 5"): "task.chance (=5) of seq_len=32 must be in (0, 1]",
    ("= 0  #", "= 128  #"): "task=first_token: train seq_len=16: inputs (=1 to 128) must be tokens, 0 to",
    (', groups={"distance": asked})', ")"): "groups are [], and ['distance'] are declared",
    (
        "Batch(inputs,",
        "Batch(inputs.float(),",
    ): "train seq_len=16: inputs must be int64, and are torch.float32",
    ("1 + below(", "torch.randint_like(below(", "self.vocab_size - 1)", "self.vocab_size - 1), 1, 9)"): (
        "task=first_token: train seq_len=16: the same config and seed differ: mend it"
    ),
}


@pytest.mark.parametrize("change", MISTAKES)
def test_a_mistake_in_a_task_ends_a_cell_before_it_trains(task_home: Path, zoo: Zoo, change: tuple) -> None:
    text = TASK
    for right, wrong in zip(change[::2], change[1::2], strict=True):
        text = text.replace(right, wrong, 1)
    (task_home / "my_task.py").write_text(text)
    code, said, why = zoo(*SMALL, "mixer=based", "task=first_token")
    assert code and MISTAKES[change] in said + why and not list(task_home.glob("results/*/result.json"))


def test_a_task_trains_and_its_distances_are_recorded(task_home: Path, zoo: Zoo) -> None:
    zoo.done(*SMALL, "mixer=based", "task=first_token")
    frame = table.load(task_home / "results")
    assert set(frame["task"]) == {"first_token"} and set(frame["seq_len"]) == {32, 64}
