"""`zoo COMMAND` is `python -m zoo.COMMAND` or `python -m analysis.COMMAND`; what --help and dir(zoo) say."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

import zoo
from tests.command import ROOT
from tests.registry import composer
from zoo.__main__ import COMMANDS
from zoo.config.compose import Composer
from zoo.config.help import help_text
from zoo.config.paths import CONF


def called(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "zoo", *words], cwd=ROOT, text=True, capture_output=True)


def test_every_command_has_a_module_and_the_help_names_it() -> None:
    said = called("--help").stdout
    for word, (package, does) in COMMANDS.items():
        assert find_spec(f"{package}.{word}"), word
        assert f"  {word} " in said and does in said


def test_every_module_that_is_a_command_is_listed() -> None:
    files = [*ROOT.glob("zoo/*.py"), *ROOT.glob("zoo/*/*.py"), *ROOT.glob("analysis/*.py")]
    files += ROOT.glob("analysis/*/__main__.py")
    commands = {
        f.parent.name if f.name == "__main__.py" else f.stem
        for f in files
        if 'if __name__ == "__main__"' in f.read_text()
    }
    assert commands - {"__main__", "zoo"} == set(COMMANDS)


WRONG = {"plna": "did you mean plan?", "x": "--help", "status no/such/folder": "folder does not exist"}


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_word_is_met_with_the_right_one_and_a_command_gets_its_own(words: str) -> None:
    got = called(*words.split())
    assert (got.returncode, got.stdout) == (2, "") and WRONG[words] in got.stderr


def test_what_is_public_is_listed_and_is_there() -> None:
    assert "begins" not in dir(zoo) and "signal" not in dir(zoo)
    assert all(getattr(zoo, name) is not None for name in dir(zoo))


@pytest.fixture(scope="module")
def ours() -> Composer:
    return composer()


def test_every_comment_of_the_chosen_yamls_is_there(ours: Composer):
    text = help_text(ours, ["mixer=sliding_window", "optim=zoology", "experiment=smoke", "lr=0.1,0.2"], 80)
    for name in ("config", "mixer/sliding_window", "optim/zoology", "task/mqar", "experiment/smoke"):
        for line in (CONF / f"{name}.yaml").read_text().partition("\nhydra:")[0].splitlines():
            assert not line[:1].isalpha() or line.startswith(("defaults", "about")) or line in text
    lines = text.partition("== Keys: key=value ==\n")[2].splitlines()
    assert lines[lines.index("# mixer=sliding_window") + 1] == "mixer:" and "# experiment=smoke" in lines
    assert "max_epochs: 1" in text and "about:" not in text and "defaults:" not in text


def test_what_names_nothing_is_said(ours: Composer):
    with pytest.raises(ValueError, match=r"unknown key d_modl; did you mean d_model\?"):
        help_text(ours, ["d_modl=3"], 80)
