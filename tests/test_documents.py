"""What is made by running stands in docs as it is made, every mixer names its paper, every trap its test."""

import ast
import re
from pathlib import Path

import pytest

from tests.command import ROOT
from tests.registry import cases
from zoo import plan
from zoo.config.paths import CONF
from zoo.mixers import __main__ as listing
from zoo.mixers.cases import build, mixer_yaml
from zoo.tasks import __main__ as tasks

NAMES = sorted(path.stem for path in (CONF / "mixer").glob("*.yaml"))
NAME = r"[A-Z][\w.-]*"
PAPER = re.compile(
    rf"{NAME}( {NAME}| and {NAME}| et al\.)* (19|20)\d\d, arXiv (\d{{4}}\.\d{{5}})(, and ours)?"
)
SOURCES = " ".join(word for path in (ROOT / "zoo").rglob("*.py") for word in path.read_text().split())


def test_the_list_of_mixers(capsys: pytest.CaptureFixture[str]):
    listing.main(["--markdown"])
    _holds("mixers.md", capsys, "python -m zoo.mixers --markdown > docs/mixers.md")


def test_the_list_of_tasks(capsys: pytest.CaptureFixture[str]):
    tasks.main(["--markdown"])
    _holds("tasks.md", capsys, "python -m zoo.tasks --markdown > docs/tasks.md")


def test_the_table_of_states(capsys: pytest.CaptureFixture[str]):
    assert plan.main(["mixer=glob(*)", "--markdown"]) == 0
    _holds("state.md", capsys, "python -m zoo.plan 'mixer=glob(*)' --markdown > docs/state.md")


def _holds(name: str, capsys: pytest.CaptureFixture[str], command: str) -> None:
    said = capsys.readouterr().out
    assert command.split(" >")[0] in said
    assert said == (ROOT / "docs" / name).read_text(), f"run: {command}"


@pytest.mark.parametrize("name", NAMES)
def test_a_mixer_names_its_paper_and_what_it_keeps(name: str):
    about = mixer_yaml(name)["about"]
    found = PAPER.fullmatch(about["paper"])
    assert found, f"{about['paper']!r} is not such as 'Arora et al. 2024, arXiv 2402.18668'"
    assert f"arXiv {found[3]}" in SOURCES, "the code names no such paper"
    assert about["keeps"].strip()
    assert "state" in about


def test_the_list_says_which_are_not_causal():
    wrong = {row.name for row in listing.rows(CONF)} ^ set(NAMES)
    others = {row.name for row in listing.rows(CONF) if not row.causal}
    assert not wrong
    assert others
    assert others == {case.name for case in cases(CONF) if not case.changes and not build(case).causal}


def test_a_knob_is_words_for_the_command_line():
    knobs = {row.name: row.knob for row in listing.rows(CONF)}
    assert knobs["attention"].startswith("d_model=16,")  # the whole model's
    assert knobs["sliding_window"].startswith("mixer.window=8,")


def test_a_folder_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "mixer").mkdir()
    text = (CONF / "mixer" / "gla.yaml").read_text()
    own = text.replace("label: GLA", "label: Mine").replace("family: linear", "family: quantum")
    own = re.sub(r"  (paper|keeps): .*\n", "", own) + '  paper: "\\e[2J [red]"\n'
    (tmp_path / "mixer" / "mine.yaml").write_text(own)
    listing.main(["--markdown", "--config-dir", str(tmp_path)])
    said = capsys.readouterr().out
    assert "## quantum" in said.splitlines()[-6:]
    assert "| Mine | `mine` |  |" in said and "| \\x1b[2J [red] |" in said
    listing.main(["--config-dir", str(tmp_path)])
    assert "\\x1b[2J [red]" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"--config-dir \(=.*nowhere\) must hold mixer/NAME.yaml"):
        listing.main(["--config-dir", str(tmp_path / "nowhere")])


NAMED = sorted(
    set(re.findall(r"`((?:tests|zoo)/[\w/]+\.py)::(\w+)`", (ROOT / "docs" / "traps.md").read_text()))
)


def test_there_are_traps():
    assert len(NAMED) > 40


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_named_test_exists(file: str, name: str):
    defined = {
        node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)
    }
    assert name in defined, f"docs/traps.md names {file}::{name}, which is not there"
