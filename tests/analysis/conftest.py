"""Fixture shared by the tests of analysis: a command run in this process, with its output."""

import re
from collections.abc import Callable

import pytest


class Run:
    """Runs the `main` of a command and captures its output."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, main: Callable[[list[str]], int], *words: object, code: int = 0) -> tuple[str, str]:
        """Return the output and the errors of a command that ends with this exit code."""
        self.capsys.readouterr()
        assert main([*map(str, words)]) == code
        return self.capsys.readouterr()

    def done(self, main: Callable[[list[str]], int], *words: object) -> str:
        """Return the output of a command that ends well, without a warning."""
        out, err = self(main, *words)
        assert not err
        return out

    def refused(self, pattern: str, main: Callable[[list[str]], int], *words: object) -> None:
        """Assert that the command prints nothing but one line of error, which matches the pattern."""
        out, err = self(main, *words, code=1)
        (line,) = err.splitlines()
        assert line.startswith("error: ") and not out
        assert re.search(pattern, line), line


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(capsys)
