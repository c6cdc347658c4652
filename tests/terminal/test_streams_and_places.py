"""A command whose streams or folders are not what it needs ends in one line, and loses nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import SMALL, Zoo
from zoo import status
from zoo.config.compose import composer

RUN = [sys.executable, "-m", "zoo.run", *SMALL, "mixer=sliding_window"]


def ended(words: list[str], place: Path, redirected: str) -> subprocess.CompletedProcess[str]:
    """How a command ends in a shell."""
    line = f'cd "{place}" && "$@" {redirected}'
    return subprocess.run(["sh", "-c", line, "sh", *words], capture_output=True, text=True, timeout=120)


def test_a_closed_stderr_loses_no_cell(tmp_path: Path):
    """The first file that a worker opened had taken its number."""
    done = ended([*RUN, "-m", "seed=0,1", "hydra.launcher.n_workers=1"], tmp_path, "2>&-")
    assert (done.returncode, "FAILED" in done.stdout) == (0, False)
    assert len([*tmp_path.glob("results/*/result.json")]) == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("words", [RUN, [sys.executable, "-m", "zoo.mixers"]], ids=["run", "mixers"])
def test_a_full_disk_behind_stdout_is_one_line(tmp_path: Path, words: list[str]):
    done = ended(words, tmp_path, "> /dev/full")
    assert done.returncode == 1
    assert done.stderr == "what this command prints cannot be written: No space left on device\n"


def test_a_folder_that_is_gone_is_one_line(tmp_path: Path):
    gone = tmp_path / "gone"
    gone.mkdir()
    environment = os.environ | {"PYTHONPATH": os.getcwd()}
    line = ["sh", "-c", 'cd "$1" && rmdir "$1" && shift && "$@"', "sh", str(gone), *RUN]
    done = subprocess.run(line, capture_output=True, text=True, env=environment, timeout=120)
    assert (done.returncode, done.stderr) == (
        2,
        "the current folder has been deleted: cd to one that exists.\n",
    )


@pytest.mark.parametrize("mode", [[], ["-m"]])
def test_a_file_in_place_of_a_folder_and_the_reverse(zoo: Zoo, tmp_path: Path, mode: list[str]):
    words = [*SMALL, "mixer=sliding_window"]
    folder = composer().cell(words).folder
    (folder / "claim.json").mkdir(parents=True)
    code, _, err = zoo(*mode, *words)
    assert (code, err.count("\n")) == (2, 1) and "claim.json is a folder, and a file belongs there" in err
    (folder / "claim.json").rmdir()
    (folder.parent / ".sweeps").touch()
    code, _, err = zoo(*mode, *words)
    assert (code, len(err.splitlines())) == (2, 1) and ".sweeps is a file, and a folder belongs there" in err


@pytest.mark.parametrize("every", ["inf", "nan", "0", "-1"])
def test_a_pause_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str], every: str):
    assert status.main([str(tmp_path), "--watch", "--every", every]) == 2
    assert "must be seconds" in capsys.readouterr().err
