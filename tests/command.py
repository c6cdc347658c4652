"""`python -m zoo.run ...` for tests: in this process, or as a user would start it."""

import os
import re
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from zoo import run
from zoo.__main__ import COMMANDS
from zoo.common import interrupts

ROOT = Path(__file__).resolve().parent.parent
TOYS = Path(__file__).resolve().parent / "toys"
SMALL = ("experiment=smoke", "d_model=16", "task.vocab_size=128")
OURS = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "COLUMNS": "160"}
ENVIRONMENT = os.environ | OURS
# the files of a record
DONE = {"config.yaml", "env.json", "metrics.csv", "result.json"}
DONE |= {"weights.safetensors"} if find_spec("safetensors") else set()


class Zoo:
    """Runs the entry in this process, in an empty folder, with the toys beside our own mixers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capfd = monkeypatch, capfd

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """Exit code, output, errors."""
        self.monkeypatch.setattr(sys, "argv", ["zoo.run", "--config-dir", str(TOYS), *words])
        self.capfd.readouterr()
        code = run.main()
        return code, *self.capfd.readouterr()

    def done(self, *words: str) -> str:
        """What a command prints that ends well, without a word of warning."""
        code, out, err = self(*words)
        assert (code, err) == (0, "")
        return out

    def refused(self, *words: str) -> str:
        """The one line that a command is refused with; it says nothing else."""
        code, out, err = self(*words)
        assert (code, out, len(err.splitlines())) == (2, "", 1), out + err
        return err


class Run:
    """Runs the `main` of a command in this process and captures its output."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, main: Callable[[list[str]], object], *words: object, code: int = 0) -> tuple[str, str]:
        """Return the output and the errors of a command that ends with this exit code."""
        self.capsys.readouterr()
        assert main([*map(str, words)]) == code
        return self.capsys.readouterr()

    def done(self, main: Callable[[list[str]], object], *words: object) -> str:
        """Return the output of a command that ends well, without a warning."""
        out, err = self(main, *words)
        assert not err
        return out

    def line(self, main: Callable[[list[str]], object], *words: object, code: int = 2) -> str:
        """Return the one line that a command is refused with; it says nothing else."""
        out, err = self(main, *words, code=code)
        assert not out and len(err.splitlines()) == 1, out + err
        return err

    def refused(self, pattern: str, main: Callable[[list[str]], object], *words: object) -> None:
        """Assert that a command of analysis is refused with a line that matches the pattern."""
        line = self.line(main, *words, code=1)
        assert line.startswith("error: ") and re.search(pattern, line), line


@contextmanager
def refusal(says: str, kind: type[BaseException] = ValueError) -> Iterator[None]:
    """What is done inside is refused in one line that says this."""
    with pytest.raises(kind) as error:
        yield
    line = str(error.value)
    assert says in line and len(line.splitlines()) == 1, line


def written(path: Path, text: str) -> Path:
    """A file with this text, in folders that are made for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def as_module(monkeypatch: pytest.MonkeyPatch, module: str, *words: str) -> int:
    """Run `python -m module words` in this process, which has imported torch, and return its exit code."""
    found = find_spec(module)
    assert found is not None
    module += ".__main__" if found.submodule_search_locations else ""
    started = [module, *(f"{COMMANDS[word][0]}.{word}" for word in words[:1] if word in COMMANDS)]
    for name in started:
        monkeypatch.delitem(sys.modules, name, raising=False)  # it would be warned of
    monkeypatch.setattr(sys, "argv", [module, *words])
    with signals_kept():
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as end:
            return int(end.code or 0)
    return 0


@contextmanager
def signals_kept() -> Iterator[None]:
    """A command listens to signals, its own way, until its process ends; this one is given back as it was."""
    handlers = {kind: signal.getsignal(kind) for kind in (*interrupts.KINDS, signal.SIGPIPE)}
    heard, dropped = replace(interrupts._signals), sys.unraisablehook
    try:
        yield
    finally:
        interrupts._signals, sys.unraisablehook = heard, dropped
        for kind, handler in handlers.items():
            signal.signal(kind, handler)


def start(*words: str, cwd: Path, python_path: str = "") -> subprocess.Popen[str]:
    """The command as a process of its own, in `cwd`."""
    path = os.pathsep.join(filter(None, [str(ROOT), python_path]))
    environment = os.environ | OURS | {"PYTHONPATH": path}  # as it is now
    command = [sys.executable, "-m", "zoo.run", "--config-dir", str(TOYS), *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=cwd, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )


def until(what: Callable[[], object], process: subprocess.Popen[str] | None, seconds: float) -> None:
    """Wait for something that a process does, which goes on meanwhile."""
    end = time.monotonic() + seconds
    while not what():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


def finish(process: subprocess.Popen[str], seconds: float = 120) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err
