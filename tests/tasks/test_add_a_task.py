"""What docs/extending.md says of adding a task, done: one file and one yaml in a folder of one's own."""

from pathlib import Path

import pytest

from tests.command import SMALL, Zoo
from tests.mixers.test_add_a_mixer import block, written
from zoo.results import table
from zoo.tasks.__main__ import main

CODE = block("# my_task.py")
YAML = block("# my_conf/task/first_token.yaml")
OWN = ["first_token", "--config-dir", "my_conf"]


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return written(tmp_path, monkeypatch, CODE, YAML)


def laws(capsys: pytest.CaptureFixture[str]) -> tuple[object, str]:
    with pytest.raises(SystemExit) as ended:
        main([*OWN, "--laws"])
    return ended.value.code, capsys.readouterr().out


def test_it_shows_rows_and_obeys_the_laws(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([*OWN, "--show", "1"])
    assert "train 0: seq_len=16, 4096 examples, chance 0.016\n  v23 25 5" in capsys.readouterr().out
    code, said = laws(capsys)
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
def test_the_laws_catch_a_mistake_in_it(
    mine: Path, capsys: pytest.CaptureFixture[str], right: str, wrong: str
) -> None:
    assert right in CODE
    (mine / "my_task.py").write_text(CODE.replace(right, wrong))
    code, said = laws(capsys)
    assert code, said


def test_it_trains_and_its_distances_are_recorded(
    mine: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code, _, err = Zoo(monkeypatch, capfd)(*SMALL, "mixer=based", "task=first_token")
    assert code == 0, err
    frame = table.load(mine / "results")
    assert set(frame["task"]) == {"first_token"} and set(frame["seq_len"]) == {32, 64}
