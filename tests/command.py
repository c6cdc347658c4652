"""`python -m zoo.run ...` for tests: in this process, or as a user would start it."""

import os
import runpy
import signal
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from zoo import run
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


def as_module(monkeypatch: pytest.MonkeyPatch, module: str, *words: str) -> int:
    """Run `python -m module words` in this process, which has imported torch, and return its exit code.

    A command listens to signals, its own way, until its process ends; this process is given back as it was.
    """
    found = find_spec(module)
    assert found is not None
    module += ".__main__" if found.submodule_search_locations else ""
    monkeypatch.delitem(sys.modules, module, raising=False)  # it would be warned of
    monkeypatch.setattr(sys, "argv", [module, *words])
    handlers = {kind: signal.getsignal(kind) for kind in (*interrupts.KINDS, signal.SIGPIPE)}
    heard, dropped = replace(interrupts._signals), sys.unraisablehook
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        interrupts._signals, sys.unraisablehook = heard, dropped
        for kind, handler in handlers.items():
            signal.signal(kind, handler)
    return 0


def start(*words: str, cwd: Path, python_path: str = "") -> subprocess.Popen[str]:
    """The command as a process of its own, in `cwd`."""
    path = os.pathsep.join(filter(None, [str(ROOT), python_path]))
    environment = os.environ | OURS | {"PYTHONPATH": path}  # as it is now
    command = [sys.executable, "-m", "zoo.run", "--config-dir", str(TOYS), *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=cwd, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )


def finish(process: subprocess.Popen[str], seconds: float = 120) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err
