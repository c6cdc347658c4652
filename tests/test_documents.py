"""What is made by running stands in docs as it is made, every mixer names its paper, every trap its test."""

import ast
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command import ROOT, written
from tests.registry import cases
from zoo import plan
from zoo.config.paths import CONF, yamls_of
from zoo.mixers import __main__ as listing
from zoo.mixers.cases import build, mixer_yaml
from zoo.tasks import __main__ as tasks

NAMES = sorted(path.stem for path in (CONF / "mixer").glob("*.yaml"))
NAME = r"[A-Z][\w.-]*"
PAPER = re.compile(
    rf"{NAME}( {NAME}| and {NAME}| et al\.)* (19|20)\d\d, arXiv (\d{{4}}\.\d{{5}})(, and ours)?"
)
SOURCES = " ".join(word for path in (ROOT / "zoo").rglob("*.py") for word in path.read_text().split())


MADE: dict[str, Callable[[list[str]], object]] = {  # command -> what it calls
    "python -m zoo.mixers --markdown > docs/mixers.md": listing.main,
    "python -m zoo.tasks --markdown > docs/tasks.md": tasks.main,
    "python -m zoo.plan 'mixer=glob(*)' --markdown > docs/state.md": plan.main,
}


@pytest.mark.records
@pytest.mark.parametrize("command", MADE)
def test_a_document_is_what_its_command_makes(command: str, capsys: pytest.CaptureFixture[str]):
    said_to_run, _, place = command.partition(" > ")
    assert not MADE[command](shlex.split(said_to_run)[3:])
    said = capsys.readouterr().out
    assert said_to_run in said
    assert said == (ROOT / place).read_text(), f"run: {command}"


@pytest.mark.parametrize("name", NAMES)
def test_a_mixer_names_its_paper_and_what_it_keeps(name: str):
    about = mixer_yaml(name)["about"]
    found = PAPER.fullmatch(about["paper"])
    assert found, f"{about['paper']!r} is not such as 'Arora et al. 2024, arXiv 2402.18668'"
    assert f"arXiv {found[3]}" in SOURCES, "the code names no such paper"
    assert about["keeps"].strip()
    assert "state" in about


def test_the_list_says_which_are_not_causal():
    causal = {name: listing.row(path).causal for name, path in yamls_of("mixer").items()}
    others = {name for name in causal if not causal[name]}
    assert causal.keys() == set(NAMES) and others
    assert others == {case.name for case in cases(CONF) if not case.changes and not build(case).causal}


def test_a_folder_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text = (CONF / "mixer" / "gla.yaml").read_text()
    own = text.replace("label: GLA", "label: Mine").replace("family: linear", "family: other")
    own = re.sub(r"  (paper|keeps): .*\n", "", own) + '  paper: "\\e[2J [red]"\n'
    written(tmp_path / "mixer" / "mine.yaml", own)
    listing.main(["--markdown", "--config-dir", str(tmp_path)])
    said = capsys.readouterr().out
    assert "## Other" in said.splitlines()[-6:]
    assert "| Mine | `mine` |  |" in said and "| \\x1b[2J [red] |" in said
    listing.main(["--config-dir", str(tmp_path)])
    assert "\\x1b[2J [red]" in capsys.readouterr().out


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
