"""Shared by the tests of analysis: a command run in this process, and what it said."""

import re
from collections.abc import Callable

import pytest


class Run:
    """Runs the `main` of a command, and takes down what it says."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, main: Callable[[list[str]], int], *words: object, code: int = 0) -> tuple[str, str]:
        """Output and errors of a command that ends with this exit code."""
        self.capsys.readouterr()
        assert main([*map(str, words)]) == code
        return self.capsys.readouterr()

    def done(self, main: Callable[[list[str]], int], *words: object) -> str:
        """Output of a command that ends well, without a word of warning."""
        out, err = self(main, *words)
        assert not err
        return out

    def refused(self, says: str, main: Callable[[list[str]], int], *words: object) -> None:
        """The command fails with one line of error that says this, and shows nothing."""
        out, err = self(main, *words, code=1)
        (line,) = err.splitlines()
        assert line.startswith("error: ") and not out
        assert re.search(says, line), line


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(capsys)
