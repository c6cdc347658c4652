"""`zoo COMMAND` is `python -m zoo.COMMAND` or `python -m analysis.COMMAND`; also --help and dir(zoo)."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

import zoo
from tests.command import ROOT
from tests.registry import composer
from zoo.__main__ import COMMANDS
from zoo.config.help import help_text
from zoo.config.paths import CONF


def called(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "zoo", *words], cwd=ROOT, text=True, capture_output=True)


def test_every_command_has_a_module_and_the_help_names_it() -> None:
    output = called("--help").stdout
    for word, (package, description) in COMMANDS.items():
        assert find_spec(f"{package}.{word}"), word
        assert f"  {word} " in output and description in output


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
def test_an_unknown_command_is_refused_and_a_command_gets_its_words(words: str) -> None:
    done = called(*words.split())
    assert (done.returncode, done.stdout) == (2, "") and WRONG[words] in done.stderr


def test_dir_lists_the_public_names_and_each_exists() -> None:
    assert "begins" not in dir(zoo) and "signal" not in dir(zoo)
    assert all(getattr(zoo, name) is not None for name in dir(zoo))


def test_the_help_has_every_comment_of_the_chosen_yamls():
    text = help_text(
        composer(), ["mixer=sliding_window", "optim=zoology", "experiment=smoke", "lr=0.1,0.2"], 80
    )
    for name in ("config", "mixer/sliding_window", "optim/zoology", "task/mqar", "experiment/smoke"):
        for line in (CONF / f"{name}.yaml").read_text().partition("\nhydra:")[0].splitlines():
            assert not line[:1].isalpha() or line.startswith(("defaults", "about")) or line in text
    lines = text.partition("== Keys: key=value ==\n")[2].splitlines()
    assert lines[lines.index("# mixer=sliding_window") + 1] == "mixer:" and "# experiment=smoke" in lines
    assert "max_epochs: 1" in text and "about:" not in text and "defaults:" not in text


def test_an_unknown_key_is_refused_in_the_help():
    with pytest.raises(ValueError, match=r"unknown key d_modl; did you mean d_model\?"):
        help_text(composer(), ["d_modl=3"], 80)
