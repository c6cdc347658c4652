"""`zoo COMMAND` is `python -m zoo.COMMAND` or `python -m analysis.COMMAND`; `dir(zoo)` is what is public."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import zoo
from zoo.__main__ import COMMANDS

ROOT = Path(__file__).parents[2]


def called(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "zoo", *words], cwd=ROOT, text=True, capture_output=True)


def test_every_command_has_a_module_and_the_help_names_it() -> None:
    said = called("--help").stdout
    for word, (package, does) in COMMANDS.items():
        assert find_spec(f"{package}.{word}"), word
        assert f"  {word} " in said and does in said


def test_every_module_that_is_a_command_is_listed() -> None:
    files = [*ROOT.glob("zoo/*.py"), *ROOT.glob("zoo/*/__main__.py"), *ROOT.glob("analysis/*.py")]
    files += ROOT.glob("analysis/*/__main__.py")
    commands = {
        f.parent.name if f.name == "__main__.py" else f.stem
        for f in files
        if 'if __name__ == "__main__"' in f.read_text()
    }
    assert commands - {"__main__", "zoo"} == set(COMMANDS)


@pytest.mark.parametrize(
    ("words", "code", "said"), [(["plna"], 2, "did you mean plan?"), (["x"], 2, "--help")]
)
def test_a_wrong_word_is_met_with_the_right_one(words: list[str], code: int, said: str) -> None:
    got = called(*words)
    assert (got.returncode, got.stdout) == (code, "") and said in got.stderr


def test_a_command_gets_its_arguments_and_hands_its_code_on() -> None:
    got = called("status", "no/such/folder")
    assert got.returncode == 2 and "no/such/folder does not exist" in got.stderr


def test_what_is_public_is_listed_and_is_there() -> None:
    assert "begins" not in dir(zoo) and "signal" not in dir(zoo)
    assert all(getattr(zoo, name) is not None for name in dir(zoo))
