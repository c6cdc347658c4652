"""Every command in README runs, cut down or in the test that is named here; `make test` runs what it says."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.analysis import fake
from tests.command import ROOT, Zoo, as_module
from zoo.config.paths import CONF

README = (ROOT / "README.md").read_text()
COMMANDS = [
    line.split("  #")[0].strip()
    for block in re.findall(r"```bash\n(.*?)```", README, re.S)
    for line in block.splitlines()
    if line.strip()
]
BY_OTHERS = {
    "make demo": "tests/launch/test_demo.py (slow)",
    "make test": ".ci/run",
    "python -m zoo.run -m mixer=based,se_attn d_model=64,128,256": "tests/launch/test_launcher.py",
    "python -m zoo.run -m sweep=based_fig2 trainer=gpu hydra/launcher=slurm hydra.launcher.gres=gpu:1": (
        "tests/slurm/test_sweeps.py, with a small sweep, where SLURM is installed"
    ),
    "python -m zoo archive results/": "tests/results/test_archive.py",
    "python -m analysis.claims results/ claims.csv": "tests/analysis/test_claims.py",
}
RUNS = [c for c in COMMANDS if c.startswith("python -m zoo.run") and c not in BY_OTHERS]
OTHERS = [c for c in COMMANDS if c not in RUNS and c not in BY_OTHERS]
A_PART = {"python -m zoo.run -m sweep=mini_based_fig2": ("mixer=based", "seed=0")}
MORE_THAN_ONE = re.compile(r"=([\d.]+),[\d.,]+$")  # values of a setting: the first will do
SMALLEST = ("experiment=smoke", "max_examples=8", "optim.max_epochs=1", "optim.batch_size=8")


def test_each_command_is_run_somewhere():
    assert len(RUNS) >= 8
    assert BY_OTHERS.keys() | A_PART.keys() <= set(COMMANDS), "README no longer says this: drop it here"


@pytest.mark.parametrize("command", RUNS)
def test_runs(command: str, cwd: Path, zoo: Zoo):
    words = [MORE_THAN_ONE.sub(r"=\1", word) for word in shlex.split(command)[3:]]
    only_shows = bool({"--help", "--cfg"} & set(words))
    shorter = () if only_shows else (*A_PART.get(command, ()), *SMALLEST)
    code, out, err = zoo(*words, *shorter)
    assert code == 0, err
    assert out
    assert any(cwd.glob("results/*/result.json")) != only_shows


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake.write(tmp_path_factory.mktemp("readme") / "results", seeds=1)


@pytest.mark.parametrize("command", OTHERS)
def test_runs_as_it_stands(
    command: str, results: Path, cwd: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    """As `python -m` runs it, in this process: torch is imported once."""
    shutil.copytree(results, cwd / "results")
    python, dash, module, *words = shlex.split(command)
    assert (python, dash) == ("python", "-m")
    assert as_module(monkeypatch, module, *words) == 0, capfd.readouterr().err
    assert capfd.readouterr().out


def test_it_names_every_mixer():
    section = README.split("## The mixers")[1].split("\n## ")[0]
    missing = {path.stem for path in (CONF / "mixer").glob("*.yaml")} - set(re.findall(r"`(\w+)`", section))
    assert not missing, f"README's list of mixers lacks {', '.join(sorted(missing))}"


def test_what_it_points_to_is_there():
    for target in re.findall(r"\]\(([\w/.-]+)\)", README):
        assert (ROOT / target).exists(), target


def test_it_can_be_read_in_one_sitting():
    assert len(README.splitlines()) <= 280


def test_no_target_stands_twice():
    told = subprocess.run(("make", "--dry-run", "test"), capture_output=True, text=True, check=True)
    chosen = "-m 'not slow and not gpu and not slurm and not records'"
    assert told.stderr == ""
    assert f"pytest -n 3 --dist loadgroup --no-loadscope-reorder {chosen}" in told.stdout
